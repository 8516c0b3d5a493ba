"""MIGRATION.md names every difference and every call, and its imports work."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import nats
import nats.js

from .left_out import left_out


def test_migration_guide_names_each_difference_test() -> None:
    text = (Path(__file__).parents[2] / "MIGRATION.md").read_text("utf-8")
    here = "".join(page.read_text("utf-8") for page in Path(__file__).parent.glob("test_differences*.py"))
    tests = set(re.findall(r"^async def (test_\w+)", here, re.MULTILINE))
    assert len(tests) > 20
    assert set(re.findall(r"`(test_\w+)`", text)) == tests


def test_the_migration_guide_names_every_call() -> None:
    text = (Path(__file__).parents[2] / "MIGRATION.md").read_text("utf-8")
    classes = [nats.NATS, nats.aio.subscription.Subscription, nats.aio.msg.Msg, nats.js.JetStreamContext]
    names = {
        f"{cls.__module__}.{cls.__qualname__}.{name}"
        for cls in [*classes, nats.js.JetStreamManager, nats.js.JetStreamContext.PullSubscription]
        for name, value in vars(cls).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }
    assert len(names) > 40
    missing = [name for name in names if left_out(name) is None and not re.search(rf"\b{name.split('.')[-1]}\b", text)]
    assert not missing


def test_the_migration_guide_s_imports_work() -> None:
    text = (Path(__file__).parents[2] / "MIGRATION.md").read_text("utf-8")
    code = text.partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["NATS"] is names["nats"].NATS
    assert issubclass(names["TimeoutError"], names["nats"].errors.Error)
