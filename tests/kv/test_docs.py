"""docs/key-value.md: its Python blocks run unchanged, one after another."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from jetarrow.js.kv import KeyValue
from jetarrow.server import NatsServer

PAGE = (Path(__file__).parents[2] / "docs" / "key-value.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ADDRESS = "nats://localhost:4222"


def test_every_verb_is_there() -> None:
    verbs = {name for name in dir(KeyValue) if name.islower() and not name.startswith("_")}
    assert len(verbs) > 12
    assert {name for name in verbs if f"`{name}(" not in PAGE} == set()


def test_blocks_run(tmp_path: Path) -> None:
    assert len(BLOCKS) == 3
    printed = []
    with NatsServer() as server:
        for number, block in enumerate(BLOCKS):
            assert ADDRESS in block
            script = tmp_path / f"block{number}.py"
            script.write_text(block.replace(ADDRESS, server.url), "utf-8")
            done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr
            printed.append(done.stdout)
    assert "deleted: DEL 4" in printed[0]
    assert "['fruit.apple'] ['fruit.apple']" in printed[0]
    assert "bread.rye b'3.10'" in printed[1]
    assert "['key', 'value', '_corrupt_record', '_error', 'revision', 'created'] 10000" in printed[2]
    assert printed[2].count("hall.") == 3
