"""The pages are readable: short table rows, and defaults that the code and the server have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from jetarrow.js.client import JetStreamContext

from .yardstick.page import Result, with_result

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "benches").glob("*.md")])
# Characters of a table row. A longer text is a paragraph, to which the row links.
ROW = 400


def test_table_rows_are_short() -> None:
    rows = [
        (page.name, line) for page in PAGES for line in page.read_text("utf-8").splitlines() if line.startswith("|")
    ]
    assert len(rows) > 500
    assert [(name, len(row), row[:60]) for name, row in rows if len(row) > ROW] == []


def test_result_of_an_experiment_replaces_the_former_one() -> None:
    page = (DOCS / "reliability.md").read_text("utf-8")
    found = ("ack: messages 10", "lost 0 (≤ 0)", "ack_sync: messages 20", "lost 3 (≤ 0)")
    result = Result(2, "KILL-FETCH", "full", "2026-01-02 03:04", "5 s, load 0", found, ("lost 3 (≤ 0)",))
    written = with_result(page, result)
    assert written.count("(#kill-fetch)") == page.count("(#kill-fetch)") == 1
    assert "| [2 KILL-FETCH](#kill-fetch) | full | 2026-01-02 03:04 | 5 s, load 0 | **failed** |" in written
    section = written.partition("#### KILL-FETCH\n\n")[2].partition("\n\n")[0]
    assert section.splitlines() == [
        "- FAILED: lost 3 (≤ 0)",
        "- ack: messages 10; lost 0 (≤ 0)",
        "- ack_sync: messages 20; lost 3 (≤ 0)",
    ]
    short = with_result(written, Result(2, "KILL-FETCH", "short", "2026-01-02 03:05", "1 s, load 0", found, ()))
    assert re.findall(r"^#### (KILL-FETCH.*)$", short, re.MULTILINE) == ["KILL-FETCH", "KILL-FETCH short"]
    assert with_result(short, result) == short
    # Everything outside of the table and the lists is unchanged.
    outside = re.compile(r"<!-- (yardstick|found) -->.*?<!-- /\1 -->", re.DOTALL)
    assert outside.sub("", short) == outside.sub("", page)


def test_each_row_of_an_experiment_has_its_figures() -> None:
    page = (DOCS / "reliability.md").read_text("utf-8")
    table = page.partition("<!-- yardstick -->")[2].partition("<!-- /yardstick -->")[0]
    links = re.findall(r"\]\(#([\w-]+)\)", table)
    headings = [title.lower().replace(" ", "-") for title in re.findall(r"^#### (.+)$", page, re.MULTILINE)]
    assert len(links) > 20
    assert headings == links


async def test_documented_limits_of_a_new_consumer_and_stream_are_true(js: JetStreamContext, stream: str) -> None:
    """The numbers that the pages give as defaults are those of a real server."""
    performance, publish = ((DOCS / f"{name}.md").read_text("utf-8") for name in ("performance", "publish"))
    limit = re.search(r"creates consumers with `max_ack_pending` ([\d,]+)", performance)
    servers = re.search(r"the server's default, ([\d,]+)", performance)
    window = re.search(r"`duplicate_window` \((\d+) minutes by default\)", publish)
    assert limit
    assert servers
    assert window
    info = await (await js.pull_subscribe(f"{stream}.>", durable="ours")).consumer_info()
    assert info.config.max_ack_pending == int(limit[1].replace(",", ""))
    others = await js.add_consumer(stream, name="theirs")
    assert others.config.max_ack_pending == int(servers[1].replace(",", ""))
    assert (await js.stream_info(stream)).config.duplicate_window == 60 * int(window[1])


async def test_a_batch_above_the_limit_ends_at_the_limit_and_warns(js: JetStreamContext, stream: str) -> None:
    """As performance.md describes for consumers of other programs."""
    await js.add_consumer(stream, name="theirs", durable_name="theirs")
    (await js.publish_batch(f"{stream}.a", [b"x"] * 1500)).raise_for_errors()
    sub = await js.pull_subscribe_bind(stream=stream, consumer="theirs")
    await sub.consumer_info()
    with pytest.warns(UserWarning, match="max_ack_pending"):
        batch = await sub.fetch_batch(2000, timeout=5)
    assert len(batch) == 1000
