"""`jetarrow bench`: what this client does against that server."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jetarrow.cli.output import Column
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import show_count, show_size, size

if TYPE_CHECKING:
    from jetarrow.sync import JetStream

# Messages of the step that waits for each.
_ONE_BY_ONE = 500
_PIECE = 10_000


def add_to(app: typer.Typer) -> None:
    """Adds the subcommand."""
    verb(app, "bench", example="jetarrow bench --msgs 1000000 --size 256B")(bench)


def bench(
    session: Session,
    msgs: Annotated[int, typer.Option(help="Messages.", min=1)] = 100_000,
    size_: Annotated[str, typer.Option("--size", help="Of one payload.", metavar="SIZE")] = "128B",
    storage: Annotated[str, typer.Option(help="file or memory.")] = "file",
    replicas: Annotated[int, typer.Option(help="Servers that keep it.", min=1, max=5)] = 1,
) -> None:
    """Publishes, reads and fetches messages of a stream that it makes and removes, and says how fast that was."""
    from jetarrow.js.errors import NotFoundError

    length = size(size_)
    js, name = session.js, f"JETARROW_BENCH_{uuid.uuid4().hex[:8]}"
    steps = _Steps(session, js, name, msgs, b"x" * length)
    try:
        # Within the block: a signal may come before the response does.
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
    session.say(f"{show_size(length)} a message, storage {storage}, server {session.nc.connected_server_version}")


class _Steps:
    def __init__(self, session: Session, js: JetStream, name: str, msgs: int, payload: bytes) -> None:
        self._session = session
        self._js = js
        self._name = name
        self._msgs = msgs
        self._payload = payload

    def measured(self, step: str, run: Callable[[Callable[[int], None]], float | None], count: int) -> dict[str, Any]:
        """Runs one step under a bar; it returns the median of one message in milliseconds, where it has one."""
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
        """All in one batch; the list holds one payload many times, and so costs little."""
        payloads = [self._payload] * self._msgs
        result = self._js.publish_batch(self._name, payloads, progress=lambda done, _total: report(done))
        result.raise_for_errors()

    def read(self, report: Callable[[int], None]) -> None:
        """The whole stream into Arrow."""
        done = 0
        for batch in self._js.read(self._name):
            done += len(batch)
            report(done)

    def fetch(self, report: Callable[[int], None]) -> None:
        """Through a consumer, each batch acknowledged."""
        sub, done = self._js.pull_subscribe(self._name, stream=self._name), 0
        while done < self._msgs:
            batch = sub.fetch_batch(_PIECE, timeout=5)
            if not len(batch):
                raise RuntimeError(f"{self._msgs - done:,} messages did not come within 5 s")
            batch.ack()
            done += len(batch)
            report(done)

    def one_by_one(self, report: Callable[[int], None]) -> float:
        """Each waits for its ack."""
        waits = []
        for done in range(1, min(self._msgs, _ONE_BY_ONE) + 1):
            begin = time.perf_counter()
            self._js.publish(self._name, self._payload)
            waits.append(time.perf_counter() - begin)
            report(done)
        return median(waits) * 1000
