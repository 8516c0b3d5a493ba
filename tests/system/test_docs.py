"""docs/servers.md: its configuration and its programs, on a cluster of three servers."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import jetarrow.sync
import pytest
from jetarrow.system import System

from ..tools import cluster, python_blocks, run_example
from .tools import VERBS, ready

PAGE = (Path(__file__).parents[2] / "docs" / "servers.md").read_text("utf-8")


@pytest.mark.timeout(180)
def test_programs(tmp_path: Path) -> None:
    (config,) = re.findall(r"```\n(accounts .*)\n```", PAGE)
    state, trace, leaders = python_blocks(PAGE)
    with cluster(more=config) as servers:
        ready(servers, password="secret")
        url = servers["n0"].url
        shown = run_example(trace, url, tmp_path)
        assert "stream 'ORDERS', subject 'orders.eu'" in shown
        assert shown.endswith("0 messages\n")
        shown = run_example(state, url, tmp_path)
        assert re.findall(r"^(n\d) \d+ connections [\d.]+ ms$", shown, re.MULTILINE) == ["n0", "n1", "n2"]
        assert "$G ORDERS 0" in shown
        assert shown.endswith("synced every 120 s\n")
        with jetarrow.sync.connect(url) as nc:
            info = nc.jetstream().stream_info("ORDERS")
        assert info.cluster is not None
        assert len(info.cluster.replicas or ()) == 2
        run_example(leaders, url, tmp_path)


def test_table_has_every_verb_with_its_options() -> None:
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|$", PAGE, re.MULTILINE)
    documented = {verb: re.findall(r"`(\w+)`", options) for verb, options in rows}
    assert set(documented) == set(VERBS)
    for verb, options in documented.items():
        known = set(inspect.signature(getattr(System, verb)).parameters) - {"self", "filters"}
        assert sorted(options) == sorted(known), verb
