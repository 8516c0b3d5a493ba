"""`help` of functions that delegate to another one shows all options, not a reference to it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.core.docstrings import with_entries_of
from jetarrow.js.client import JetStreamContext

# A function that is re-exported or delegates, and the one whose options it has.
DELEGATES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "connect": (jetarrow.connect, jetarrow.Client.connect),
    "sync.connect": (jetarrow.sync.connect, jetarrow.Client.connect),
    "sync.Client.connect": (jetarrow.sync.Client.connect, jetarrow.Client.connect),
    "jetstream_manager": (jetarrow.Client.jetstream_manager, jetarrow.Client.jetstream),
    "sync.Client.jetstream_manager": (jetarrow.sync.Client.jetstream_manager, jetarrow.Client.jetstream),
    "sync.worker": (jetarrow.sync.worker, jetarrow.worker),
    "latest": (JetStreamContext.latest, JetStreamContext.latest),
    "to_delta": (JetStreamContext.to_delta, JetStreamContext.to_delta),
    "to_iceberg": (JetStreamContext.to_iceberg, JetStreamContext.to_iceberg),
    "publish_table": (JetStreamContext.publish_table, JetStreamContext.publish_table),
    "sync.latest": (jetarrow.sync.JetStream.latest, JetStreamContext.latest),
    "sync.to_delta": (jetarrow.sync.JetStream.to_delta, JetStreamContext.to_delta),
    "sync.to_iceberg": (jetarrow.sync.JetStream.to_iceberg, JetStreamContext.to_iceberg),
    "sync.Consumer.batches": (jetarrow.sync.Consumer.batches, jetarrow.sync.Consumer.batches),
    "sync.PullSubscription.batches": (jetarrow.sync.PullSubscription.batches, jetarrow.sync.PullSubscription.batches),
    "sync.KeyValue.to_table": (jetarrow.sync.KeyValue.to_table, jetarrow.sync.KeyValue.to_table),
    "sync.KeyValue.watchall": (jetarrow.sync.KeyValue.watchall, jetarrow.sync.KeyValue.watchall),
    "publish_async": (JetStreamContext.publish_async, JetStreamContext.publish),
    "sync.publish_async": (jetarrow.sync.JetStream.publish_async, JetStreamContext.publish),
}


def options(function: Callable[..., Any]) -> dict[str, str]:
    """Name and text of each entry in the section "Args" of a docstring."""
    text = inspect.getdoc(function) or ""
    section = re.split(r"\n(?=\w+:\n)", text.partition("Args:\n")[2])[0]
    entries = re.findall(r"^    (\*{0,2}\w+): (.*(?:\n {8,}.*)*)", section, re.MULTILINE)
    return {name: " ".join(entry.split()) for name, entry in entries}


@pytest.mark.parametrize("name", DELEGATES)
def test_help_of_a_delegating_function_lists_every_option(name: str) -> None:
    function, origin = DELEGATES[name]
    shown, wanted = options(function), options(origin)
    assert len(wanted) >= 5
    # publish_async has `wait_stall` in place of a timeout.
    assert wanted.keys() - {"timeout", "**options", "**extras"} <= shown.keys()
    assert not [text for text in shown.values() if re.match(r"(As|Like) `", text)]


def test_docstring_of_connect_is_the_methods() -> None:
    for part in ("Args:", "Raises:"):
        assert (inspect.getdoc(jetarrow.connect) or "").partition(part)[2] == (
            inspect.getdoc(jetarrow.Client.connect) or ""
        ).partition(part)[2]


def test_blocking_connect_describes_plain_callbacks() -> None:
    text = inspect.getdoc(jetarrow.sync.connect) or ""
    assert "All callbacks are plain functions" in text
    assert "A callback is a coroutine function." in text
    assert "await" not in text


def functions(owner: type) -> dict[str, Callable[..., Any]]:
    """The public methods of a class."""
    found = {name: inspect.getattr_static(owner, name) for name in dir(owner) if not name.startswith("_")}
    return {name: value for name, value in found.items() if inspect.isfunction(value)}


BLOCKING = [
    cls for _, cls in inspect.getmembers(jetarrow.sync, inspect.isclass) if cls.__module__.startswith("jetarrow")
]


@pytest.mark.parametrize("owner", BLOCKING, ids=lambda cls: cls.__name__)
def test_help_of_blocking_methods_is_not_a_reference(owner: type) -> None:
    references = {
        name: text
        for name, function in functions(owner).items()
        if re.match(r"As `jetarrow\.", text := inspect.getdoc(function) or "")
    }
    assert references == {}


def test_blocking_classes_are_found() -> None:
    names = {cls.__name__ for cls in BLOCKING}
    assert {"Client", "JetStream", "KeyValue", "Reader", "PullSubscription"} <= names
    assert len(functions(jetarrow.sync.JetStream)) > 40


def test_remark_of_a_blocking_method_is_kept() -> None:
    text = inspect.getdoc(jetarrow.sync.JetStream.publish_async) or ""
    assert text.startswith("Publishes one message without waiting for its ack.\n\nIn `jetarrow.sync`: the future")


def test_entries_of_other_functions_are_shown_with_remarks() -> None:
    def origin() -> None:
        """Reads.

        Args:
            rows: Most rows of a batch,
                at least 1.
        """

    def taker() -> None:
        """Reads too.

        Args:
            rows: As `x.origin`; default 5.
            unknown: As `origin`.
            other: As `elsewhere`.
        """

    text = inspect.getdoc(with_entries_of(origin)(taker))
    assert text == (
        "Reads too.\n\nArgs:\n    rows: Most rows of a batch,\n        at least 1.\n        Here: default 5.\n"
        "    unknown: As `origin`.\n    other: As `elsewhere`."
    )
