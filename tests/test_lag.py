"""`js.lag`: one row per consumer, with its lag."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.jetstream.arrow_table import ArrowTable
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import NotFoundError

from .tools import fill, fill_subjects, fill_sync


async def test_lag_has_one_row_per_consumer(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 5)
    before = datetime.now(UTC)
    await fill_subjects(js, stream, ["b", "c"])
    for name in ("idle", "partly"):
        await js.pull_subscribe(f"{stream}.>", durable=name)
    idle, partly = (js.stream(stream).consumer(name) for name in ("idle", "partly"))
    taken = await partly.fetch(5)
    for msg in taken[:3]:
        await msg.ack_sync(timeout=20)
    await js.add_consumer(stream, name="two", filter_subjects=[f"{stream}.b", f"{stream}.c"], ack_policy="explicit")
    await js.add_consumer(stream, name="push", deliver_subject=f"deliver.{stream}", filter_subject=f"{stream}.none")
    await idle.pause(datetime.now(UTC) + timedelta(hours=1))
    table = await js.lag(stream)
    assert [str(field.type) for field in table.schema][3:] == [
        "list<item: string>",
        *["int64"] * 5,
        "timestamp[us, tz=UTC]",
        "bool",
        "duration[us]",
    ]
    rows = {row["consumer"]: row for row in table.to_pylist()}
    assert list(rows) == ["idle", "partly", "push", "two"]
    assert [(row["num_pending"], row["num_ack_pending"], row["ack_floor"]) for row in rows.values()] == [
        (7, 0, 0),
        (2, 2, 3),
        (0, 0, 0),
        (2, 0, 0),
    ]
    assert [row["kind"] for row in rows.values()] == ["pull", "pull", "push", "pull"]
    assert [row["paused"] for row in rows.values()] == [True, False, False, False]
    assert rows["two"]["filter_subjects"] == [f"{stream}.b", f"{stream}.c"]
    assert rows["push"]["behind"] == timedelta(0)
    # Some of the pending messages were stored before `before`, the others after it.
    now = datetime.now(UTC)
    # The ages are computed at different times: the consumers are queried concurrently.
    slack = now - before
    assert rows["idle"]["behind"] + slack >= rows["partly"]["behind"]
    assert rows["partly"]["behind"] + slack >= rows["two"]["behind"] > timedelta(0)
    assert rows["two"]["behind"] <= now - before < now - before + rows["idle"]["behind"]
    assert rows["partly"]["last_active"] is not None
    assert rows["two"]["last_active"] is None


async def test_lag_ignores_deleted_messages(js: JetStreamContext, stream: str) -> None:
    """The lag is the age of the first message that still exists."""
    await fill(js, stream, 3)
    await js.add_consumer(stream, name="c", ack_policy="explicit")
    await js.delete_msg(stream, 1)
    (row,) = (await js.lag([stream])).to_pylist()
    stored = (await js.get_msg(stream, 2)).time
    assert stored is not None
    assert timedelta(0) < row["behind"] <= datetime.now(UTC) - stored


async def test_lag_ignores_messages_before_the_consumer_starts(js: JetStreamContext, stream: str) -> None:
    """Messages stored before the start of the consumer do not count."""
    await fill(js, stream, 5)
    await js.add_consumer(stream, name="c", ack_policy="explicit", deliver_policy="new")
    (row,) = (await js.lag(stream)).to_pylist()
    assert (row["num_pending"], row["behind"]) == (0, timedelta(0))
    before = datetime.now(UTC)
    await js.publish(f"{stream}.a")
    (row,) = (await js.lag(stream)).to_pylist()
    assert row["num_pending"] == 1
    assert timedelta(0) < row["behind"] <= datetime.now(UTC) - before


async def test_every_stream(own: JetStreamContext) -> None:
    names = [f"S{number:02}" for number in range(40)]
    for name in names:
        await own.add_stream(name=name, subjects=[name])
        await own.add_consumer(name, name="c")
    table = await own.lag()
    assert table["stream"].to_pylist() == names
    with pytest.raises(NotFoundError):
        await own.lag(["S00", "nowhere"])
    with pytest.raises(ValueError, match="stream"):
        await own.lag("a.b")


def test_without_a_loop(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    fill_sync(sync_js, stream, 3)
    for number in range(3):
        sync_js.add_consumer(stream, name=f"c{number}", ack_policy="explicit")
    table = sync_js.lag([stream, stream])
    assert table["consumer"].to_pylist() == ["c0", "c0", "c1", "c1", "c2", "c2"]
    assert set(table["num_pending"].to_pylist()) == {3}
    assert all(behind > timedelta(0) for behind in table["behind"].to_pylist())
    with pytest.raises(NotFoundError):
        sync_js.lag(["nowhere", stream])


def test_table_has_the_verbs_of_a_reader(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    sync_js.add_consumer(stream, name="c")
    lag = sync_js.lag(stream)
    table = lag.to_pyarrow()
    assert type(table) is pa.Table
    assert lag == table
    assert len(lag) == lag.num_rows == table.num_rows == 1
    assert lag.read_all() is table
    assert lag.to_pandas()["consumer"].tolist() == ["c"]
    assert lag.to_polars()["consumer"].to_list() == ["c"]
    assert lag.to_duckdb().query("lag", "select consumer from lag").fetchall() == [("c",)]
    assert pa.table(lag) == table
    assert pickle.loads(pickle.dumps(lag)) == lag
    assert {"to_polars", "select", "num_rows"} <= set(dir(lag))
    verbs = {name for name in dir(jetarrow.sync.Reader) if name.startswith("to_")}
    assert verbs
    assert verbs <= {name for name in dir(ArrowTable) if name.startswith("to_")}
