"""docs/consumer-groups.md: its programs and its commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from jetarrow.cli import main
from jetarrow.server import NatsServer

from ..tools import run_example

PAGE = (Path(__file__).parents[2] / "docs" / "consumer-groups.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^    (jetarrow .*)$", PAGE, re.MULTILINE)


def test_programs_and_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with NatsServer() as server:
        monkeypatch.setenv("NATS_URL", server.url)
        for program, expected in BLOCKS:
            assert run_example(program, server.url, tmp_path) == expected
        assert main(["stream", "add", "ORDERS", "--subjects", "orders.>"]) == 0
        ran = [line for line in COMMANDS if " watch " not in line]
        assert len(ran) >= 4
        for line in ran:
            assert main(shlex.split(line)[1:]) == 0, line
        capsys.readouterr()
        assert main(["group", "ls"]) == 0
        shown = capsys.readouterr().out
        assert re.search(r"METERS +audit +static +4 +meter\.\* +m1, m2", shown)
        assert re.search(r"ORDERS +billing +elastic +12 +orders\.\*\.> +m2, m3", shown)
