"""`jetarrow bench`: measure publishing, reading and fetching against a server."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jetarrow.cli.arguments import Storage
from jetarrow.cli.json_shape import array_of
from jetarrow.cli.output import Column
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import show_count, show_size, size

if TYPE_CHECKING:
    from jetarrow.sync import JetStream

# Messages of the step that awaits each ack.
_ONE_BY_ONE = 500
# Messages per fetch.
_BATCH = 10_000


_SHAPE = array_of("step messages seconds per_second bytes_per_second median_ms")


def add_to(app: typer.Typer) -> None:
    """Adds the subcommand."""
    verb(app, "bench", example="jetarrow bench --msgs 1000000 --size 256B", json=_SHAPE)(bench)


def bench(
    session: Session,
    msgs: Annotated[int, typer.Option(help="Number of messages.", min=1)] = 100_000,
    size_: Annotated[str, typer.Option("--size", help="Size of a payload.", metavar="SIZE")] = "128B",
    storage: Storage = "file",
    replicas: Annotated[int, typer.Option(help="Number of replicas.", min=1, max=5)] = 1,
) -> None:
    """Measures publishing, reading and fetching with a temporary stream, which is removed at the end."""
    from jetarrow.js.errors import NotFoundError

    length = size(size_)
    js, name = session.js, f"JETARROW_BENCH_{uuid.uuid4().hex[:8]}"
    steps = _Steps(session, js, name, msgs, b"x" * length)
    try:
        # Within the block, because a signal may arrive before the response.
        js.add_stream(name=name, subjects=[name], storage=storage, num_replicas=replicas)
        rows = [
            steps.measured("publish_batch", steps.publish, msgs),
            steps.measured("read", steps.read, msgs),
            steps.measured("fetch_batch + ack", steps.fetch, msgs),
            steps.measured("publish, one by one", steps.one_by_one, min(msgs, _ONE_BY_ONE)),
        ]
    finally:
        with suppress(NotFoundError):
            js.delete_stream(name)
    columns = (
        Column("step", "Step"),
        Column("messages", "Messages"),
        Column("seconds", "Seconds", lambda seconds: f"{seconds:.2f}"),
        Column("per_second", "Messages/s", show_count),
        Column("bytes_per_second", "Payload/s", show_size),
        Column("median_ms", "Median ms", lambda ms: "" if ms is None else f"{ms:.2f}"),
    )
    session.rows(rows, columns, "")
    session.say(f"{show_size(length)} per message, storage {storage}, server {session.nc.connected_server_version}")


class _Steps:
    def __init__(self, session: Session, js: JetStream, name: str, msgs: int, payload: bytes) -> None:
        self._session = session
        self._js = js
        self._name = name
        self._msgs = msgs
        self._payload = payload

    def measured(self, step: str, run: Callable[[Callable[[int], None]], float | None], count: int) -> dict[str, Any]:
        """Run one step with a progress bar. `run` returns the median time per message in milliseconds, or None."""
        with self._session.progress("messages") as bar:
            task = bar.add_task(step, total=count)
            begin = time.perf_counter()
            middle = run(lambda done: bar.update(task, completed=done))
            seconds = time.perf_counter() - begin
            bar.update(task, completed=count)
        rate = count / seconds
        return {
            "step": step,
            "messages": count,
            "seconds": seconds,
            "per_second": rate,
            "bytes_per_second": rate * len(self._payload),
            "median_ms": middle,
        }

    def publish(self, report: Callable[[int], None]) -> None:
        """Publish all messages in one batch. The list repeats one payload, so its memory is small."""
        payloads = [self._payload] * self._msgs
        result = self._js.publish_batch(self._name, payloads, progress=lambda done, _total: report(done))
        result.raise_for_errors()

    def read(self, report: Callable[[int], None]) -> None:
        """Read the whole stream into Arrow."""
        done = 0
        for batch in self._js.read(self._name):
            done += len(batch)
            report(done)

    def fetch(self, report: Callable[[int], None]) -> None:
        """Fetch through a consumer and acknowledge each batch."""
        sub, done = self._js.pull_subscribe(self._name, stream=self._name), 0
        while done < self._msgs:
            batch = sub.fetch_batch(_BATCH, timeout=5)
            if not len(batch):
                raise RuntimeError(
                    f"could not fetch {self._msgs - done:,} of {self._msgs:,} messages: none arrived within 5 s"
                )
            batch.ack()
            done += len(batch)
            report(done)

    def one_by_one(self, report: Callable[[int], None]) -> float:
        """Publish messages one by one, each after the ack of the one before."""
        waits = []
        for done in range(1, min(self._msgs, _ONE_BY_ONE) + 1):
            begin = time.perf_counter()
            self._js.publish(self._name, self._payload)
            waits.append(time.perf_counter() - begin)
            report(done)
        return median(waits) * 1000
