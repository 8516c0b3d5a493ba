"""The Python blocks of docs/newer-servers.md run one after the other."""

from __future__ import annotations

import ast
import inspect
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from jetarrow.js.client import JetStreamContext

PAGE = (Path(__file__).parents[1] / "docs" / "newer-servers.md").read_text("utf-8")


async def test_newer_servers(own: JetStreamContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {
        "js": own,
        "datetime": datetime,
        "timedelta": timedelta,
        "yesterday": datetime.now(UTC) - timedelta(days=1),
        "subjects": ["s.1", "s.2", "s.3"],
        "payloads": [b"1", b"2", b"3"],
    }
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 7
    for block in blocks:
        if "restore_stream" in block:
            # A stream that exists cannot be restored.
            await names["stream"].backup("backups/S")
            block = block.replace("await js.restore", "await stream.delete()\nawait js.restore")
        running = eval(compile(block, "newer-servers.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if inspect.isawaitable(running):
            await running
        if "get_or_create_stream" in block:
            # Enough for a group with min_pending.
            (await own.publish_batch("s.many", [b"x"] * 3000)).raise_for_errors()
