"""Headers of a publish are not part of the rows that a read returns, so that rows can be written again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetarrow.spark.reserved_headers import without

from tests.raw_publish import raw_publish
from tests.strategies import bounded

if TYPE_CHECKING:
    from .tools import Here, Streams

NAMES = ["Nats-Msg-Id", "Nats-Expected-Stream", "nats-batch-id", "Nats-Batch-Commit", "X", "Nats-TTL", "nats-msg-id"]
ROWS = st.lists(st.none() | st.lists(st.tuples(st.sampled_from(NAMES), st.lists(st.text(max_size=3), max_size=3))))
KIND = pa.map_(pa.string(), pa.list_(pa.field("item", pa.string(), nullable=False)))


@bounded(100)
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


@pytest.mark.parametrize("options", [{}, {"readMode": "latest"}, {"reader": "direct"}])
def test_values_of_headers_are_bytes_on_request(here: Here, streams: Streams, options: dict[str, str]) -> None:
    name = streams.new(allow_direct=True)
    values = {"A": "é\xa0", "B": "é".encode() + b"\xff", "Nats-Msg-Id": "1"}
    raw_publish(here.url, f"{name}.a", b"", values)
    raw_publish(here.url, f"{name}.b", b"")
    found = here.read(name, headers="binary", **options)["headers"].to_pylist()
    assert found == [[("A", ["é\xa0".encode()]), ("B", ["é".encode() + b"\xff"])], None]
    # As text, white space around a value is removed. Only the value that is not UTF-8 is Latin-1.
    [(_, [first]), (_, [second])] = here.read(name, **options)["headers"].to_pylist()[0]
    assert (first, second.encode("latin-1")) == ("é", values["B"])


def test_the_type_of_headers_follows_the_option(here: Here, streams: Streams) -> None:
    name = streams.new()
    schema = here.source(name, headers="binary").schema()
    assert schema["headers"].dataType.simpleString() == "map<string,array<binary>>"
    with pytest.raises(ValueError, match=r"'headers'.*valid: string"):
        here.source(name, headers="bytes").schema()
