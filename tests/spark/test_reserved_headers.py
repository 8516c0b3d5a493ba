"""Headers of a publish are not part of the rows that a read returns, so that rows can be written again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jetarrow.spark.reserved_headers import without

if TYPE_CHECKING:
    from .tools import Here, Streams

NAMES = ["Nats-Msg-Id", "Nats-Expected-Stream", "nats-batch-id", "Nats-Batch-Commit", "X", "Nats-TTL", "nats-msg-id"]
ROWS = st.lists(st.none() | st.lists(st.tuples(st.sampled_from(NAMES), st.lists(st.text(max_size=3), max_size=3))))
KIND = pa.map_(pa.string(), pa.list_(pa.field("item", pa.string(), nullable=False)))


@settings(deadline=None)
@given(rows=ROWS, cut=st.tuples(st.integers(0, 9), st.integers(0, 9)), any_spelling=st.booleans())
def test_reserved_headers_are_removed_from_any_column(rows: Any, cut: tuple[int, int], any_spelling: bool) -> None:
    column = pa.array(rows, KIND).slice(*cut)

    def kept(name: str) -> bool:
        name = name.title() if any_spelling else name
        return not (name == "Nats-Msg-Id" or name.startswith(("Nats-Expected-", "Nats-Batch-")))

    found = without(column, any_spelling=any_spelling)
    found.validate(full=True)
    assert found.type == column.type
    rest = [[entry for entry in row or [] if kept(entry[0])] for row in column.to_pylist()]
    assert [row or [] for row in found.to_pylist()] == rest


@pytest.mark.parametrize("options", [{}, {"readMode": "latest"}, {"includeTimeNs": "true"}])
def test_read_omits_headers_of_the_publish_by_default(here: Here, streams: Streams, options: dict[str, str]) -> None:
    name = streams.new()
    for number, own in enumerate([{"X": "1"}, {}]):
        headers = {"Nats-Msg-Id": f"id {number}", "Nats-Expected-Stream": name, **own}
        streams.run(lambda js, headers=headers, number=number: js.publish(f"{name}.{number}", b"", headers=headers))
    assert here.read(name, **options)["headers"].to_pylist() == [[("X", ["1"])], None]
    found = here.read(name, includeReservedHeaders="true", **options)["headers"].to_pylist()
    assert [dict(row)["Nats-Msg-Id"] for row in found] == [["id 0"], ["id 1"]]
