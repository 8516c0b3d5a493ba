"""docs/consumer-groups.md: its programs and its commands."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import jetarrow.sync
import pytest
from jetarrow.cli import main
from jetarrow.server import NatsServer

from ..tools import run_example, wait_until

PAGE = (Path(__file__).parents[2] / "docs" / "consumer-groups.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^    (jetarrow .*)$", PAGE, re.MULTILINE)


def test_programs_and_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with NatsServer() as server:
        monkeypatch.setenv("NATS_URL", server.url)
        for program, expected in BLOCKS:
            if expected:
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


class Process:
    """The page's member as a process, with the rows that it has billed: partition, subject, number."""

    def __init__(self, folder: Path, name: str) -> None:
        command = [sys.executable, str(folder / "billing.py")]
        self.process = subprocess.Popen(
            command, env={**os.environ, "MEMBER": name}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.name = name
        self.rows: list[tuple[int, str, int]] = []
        self.other: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            words = line.split()
            if len(words) == 4 and words[0] == self.name:
                self.rows.append((int(words[1]), words[2], int(words[3])))
            else:
                self.other.append(line)

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        code = self.process.wait(30)
        self._reader.join(30)
        return code


def test_the_member_of_the_page(tmp_path: Path) -> None:
    """Three members, one of which has a process on standby: a kill and a removal keep the order of each key."""
    (program,) = (program for program, expected in BLOCKS if not expected)
    assert "ack_wait=5)" in program
    with NatsServer() as server, jetarrow.sync.connect(server.url) as nc:
        shorter = program.replace("nats://localhost:4222", server.url).replace("ack_wait=5)", "ack_wait=4)")
        (tmp_path / "billing.py").write_text(shorter, "utf-8")
        js = nc.jetstream()
        js.add_stream(name="ORDERS", subjects=["orders.>"])
        names = ["m1", "m2", "m3"]
        filters: dict[str, Any] = {"filter": "orders.*.>", "partition_by": [1]}
        group = js.create_consumer_group("ORDERS", "billing", partitions=12, members=names, **filters)
        processes = [Process(tmp_path, name) for name in [*names, "m2"]]
        rounds = iter(range(1000))
        published: set[tuple[str, int]] = set()

        def publish(count: int) -> None:
            for number in islice(rounds, count):
                for key in range(24):
                    js.publish(f"orders.c{key}.paid", str(number).encode())
                    published.add((f"orders.c{key}.paid", number))

        def is_done() -> bool:
            billed = {(subject, number) for one in processes for _, subject, number in one.rows}
            return billed == published and js.stream_info("ORDERS-billing").state.messages == 0

        try:
            publish(10)
            wait_until(is_done)
            pinned, standby = (processes[1], processes[3]) if processes[1].rows else (processes[3], processes[1])
            assert pinned.rows
            assert not standby.rows
            publish(5)
            pinned.end(signal.SIGKILL)
            publish(5)
            wait_until(is_done)
            assert standby.rows
            group.remove_member("m3")
            publish(5)
            wait_until(is_done)
            ended = [one for one in processes if one is not pinned]
            assert [one.end(signal.SIGTERM) for one in ended] == [0, 0, 0]
            others = [line for one in ended for line in one.other]
            assert all("belong to another program or member" in line for line in others), others
        finally:
            for one in processes:
                one.process.kill()
    found: dict[str, set[int]] = {}
    for one in processes:
        assert one.rows
        for subject in {subject for _, subject, _ in one.rows}:
            numbers = [number for _, of, number in one.rows if of == subject]
            # Rows whose acknowledgement was lost with the former consumer are billed once more, in their order: each
            # number follows the one before it, or is an earlier one.
            assert all(after <= before + 1 for before, after in pairwise(numbers)), (one.name, subject, numbers)
            assert len(numbers) <= 25 + 10, (one.name, subject, numbers)
            found[subject] = found.get(subject, set()) | set(numbers)
    assert found == {f"orders.c{key}.paid": set(range(25)) for key in range(24)}
