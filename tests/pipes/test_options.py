"""Options of pipes: formats, headers, columns, and what of the source is read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.jetstream.pipes.messages import _without_server, message_schema
from jetarrow.js.errors import PipeError

from ..registry.server import RegistryServer, running
from .tools import SCHEMA, double, outputs, publish

AVRO = {
    "type": "record",
    "name": "Doubled",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "key", "type": "string"},
        {"name": "double", "type": "long", "default": 0},
    ],
}


async def run(js: JetStreamContext, stream: str, target: str, function: Any = double, **more: Any) -> Any:
    given = {"name": "p", "subject": f"{target}.out.{{key}}", "schema": SCHEMA, **more}
    return await js.pipe(stream, target, function, **given).run()


async def test_headers_are_added_to_those_of_the_rows(js: JetStreamContext, stream: str, target: str) -> None:
    await js.publish(f"{stream}.a", b'{"id": 1, "key": "a"}', headers={"Trace": "t", "Nats-Msg-Id": "1", "By": "me"})
    await run(js, stream, target, headers={"By": "pipe", "Many": ["1", "2"]})
    (row,) = (await js.read(target, subjects=f"{target}.out.>").read_all()).to_pylist()
    found = {name: values for name, values in row["headers"] if not name.startswith("Nats-")}
    assert found == {"Trace": ["t"], "By": ["pipe"], "Many": ["1", "2"]}
    await run(js, stream, target, lambda rows: rows.select(["id", "key"]), name="q", headers={"By": "pipe"})
    row = (await js.read(target, subjects=f"{target}.out.>").read_all()).to_pylist()[-1]
    assert ("By", ["pipe"]) in row["headers"]


def test_server_headers_are_removed_from_any_part_of_a_table() -> None:
    kind = message_schema().field("headers").type
    rows = [
        [("A", ["1"]), ("Nats-X", ["2"])],
        None,
        [],
        [("Nats-Y", ["3"])],
        [("B", ["4", "5"]), ("Nats-Z", []), ("C", [])],
    ]
    expected = [[("A", ["1"])], [], [], [], [("B", ["4", "5"]), ("C", [])]]
    array = pa.array(rows, kind)
    for first in range(len(rows)):
        for last in range(first + 1, len(rows) + 1):
            found = _without_server(array.slice(first, last - first)).to_pylist()
            assert [row or [] for row in found] == expected[first:last]


async def test_columns_nulls_and_the_struct(js: JetStreamContext, stream: str, target: str) -> None:
    await publish(js, stream, [3])
    await run(js, stream, target, columns=["seq", "double"])
    await run(js, stream, target, lambda rows: rows.append_column("x", pa.nulls(1, pa.int8())), name="q", nulls=True)
    await run(
        js,
        stream,
        target,
        lambda rows: rows.append_column("key", rows["subject"].cast("string")).select(["value"]),
        name="r",
        flatten=False,
        subject=f"{target}.out.struct",
    )
    assert await outputs(js, target) == [
        {"seq": 1, "double": 6},
        {"id": 3, "key": "k3", "x": None},
        {"value": {"id": 3, "key": "k3"}},
    ]


async def test_what_is_read(js: JetStreamContext, stream: str, target: str) -> None:
    await publish(js, stream, range(10))
    assert (await run(js, stream, target, subjects=[f"{stream}.k1", f"{stream}.k2"])).rows == 4
    assert (await run(js, stream, target, name="q", start_seq=8)).rows == 3
    assert (await run(js, stream, target, name="r", start_time="1h")).rows == 10
    pipe = js.pipe(stream, target, double, name="s", subject=f"{target}.out.x", schema=SCHEMA, start_seq=8)
    assert await pipe.lag() == 3


async def test_avro_in_and_out(js: JetStreamContext, stream: str, target: str) -> None:
    rows = pa.table({"id": [1, 2], "key": ["a", "b"]})
    await js.publish_table(rows, f"{stream}.x", format="avro", schema=AVRO)
    await run(
        js,
        stream,
        target,
        lambda rows: double(rows.drop_columns(["double"])),
        format="avro",
        schema=AVRO,
        output_format="avro",
        output_schema=AVRO,
    )
    found = await js.read(target, subjects=f"{target}.out.>", format="avro", schema=AVRO, flatten=True).read_all()
    assert found.select(["id", "key", "double"]).to_pylist() == [
        {"id": 1, "key": "a", "double": 2},
        {"id": 2, "key": "b", "double": 4},
    ]
    with pytest.raises(ValueError, match="output_schema"):
        js.pipe(stream, target, double, name="x", output_schema=AVRO)


async def test_the_schema_of_the_first_start_is_kept(js: JetStreamContext, stream: str, target: str) -> None:
    await publish(js, stream, [1])
    await run(js, stream, target, schema="infer")
    await js.publish(f"{stream}.x", b'{"id": 2, "key": "k", "later": true}')
    await run(js, stream, target, schema="infer")
    assert await outputs(js, target) == [
        {"id": 1, "key": "k1", "double": 2},
        {"id": 2, "key": "k", "double": 4},
    ]


async def test_a_registry_for_the_source(js: JetStreamContext, stream: str, target: str) -> None:
    with running(RegistryServer()) as registry:
        rows = pa.table({"id": [1], "key": ["a"], "double": [0]})
        await js.publish_table(rows, f"{stream}.x", format="avro", schema=AVRO, registry=registry.url)
        for schema in (None, AVRO):
            function = lambda rows: double(rows.drop_columns(["double"]))  # noqa: E731
            name = "p" if schema is None else "q"
            await run(js, stream, target, function, name=name, format="avro", schema=schema, registry=registry.url)
            await run(js, stream, target, function, name=name, format="avro", schema=schema, registry=registry.url)
    assert await outputs(js, target) == [{"id": 1, "key": "a", "double": 2}] * 2


@pytest.mark.parametrize("on_error", ["skip", "dead_letter"])
async def test_failfast_is_an_error_whatever_on_error_is(
    js: JetStreamContext, stream: str, target: str, on_error: str
) -> None:
    await publish(js, stream, [1])
    await js.publish(f"{stream}.bad", b"no json")
    with pytest.raises(PipeError, match="message 2: the payload could not be decoded"):
        await run(js, stream, target, mode="FAILFAST", on_error=on_error)
    assert await outputs(js, target) == []
