"""docs/state.md: its Python blocks run, one after another."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

PAGE = (Path(__file__).parents[1] / "docs" / "state.md").read_text("utf-8")


async def test_the_page(own: JetStreamContext, own_server: NatsServer) -> None:
    await own.add_stream(name="SENSORS", subjects=["sensors.>"])
    for number in range(12):
        site = ("north", "south")[number % 2]
        await own.publish(f"sensors.{site}.{number % 4}", f'{{"id": {number % 4}, "celsius": {number / 2}}}')
    names: dict[str, Any] = {"js": own, "url": own_server.url}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        code = compile(block, "state.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        done = eval(code, names)
        if done is not None:
            await done
    assert names["table"]["celsius"].to_pylist() == [4.0, 4.5, 5.0, 5.5]
    assert names["north"].height == 2
    assert names["third"]["seq"].to_pylist() == [1, 2, 3]
    assert names["state"]["sensors.north.1"] == b'{"id": 1, "celsius": 5.5}'
    assert len(names["state"]) == 5
    assert names["warm"].rows() == [(13, 5.5)]
    assert names["mean"].height == names["now"].height == 5
    assert names["means"] == [(0, 2.0), (1, 5.5), (2, 3.0)]
