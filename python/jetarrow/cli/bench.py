"""`jetarrow bench`: the figures of the repository's benches against the user's server, and the limit that each met."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jetarrow.cli import output, signals
from jetarrow.cli.arguments import Storage
from jetarrow.cli.bench_measure import Plan, Report, measure
from jetarrow.cli.bench_meters import Link, ServerCpu
from jetarrow.cli.bench_rows import ROWS, Row
from jetarrow.cli.json_shape import an_object
from jetarrow.cli.output import Column
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import show_count, show_size, size, span

if TYPE_CHECKING:
    import jetarrow.sync
    from jetarrow.sync import JetStream

_ROW = (
    "name messages seconds per_second bytes_per_second median_ms client_cpu client_thread bandwidth round_trips"
    " server_cpu limit reason advice"
)
_SHAPE = an_object(
    "server size storage replicas round_trip_ms up_bytes_per_second down_bytes_per_second"
    + "".join(f" rows[].{key}" for key in _ROW.split())
)


def _percent(part: float | None) -> str:
    return "" if part is None else f"{part * 100:.0f}%"


_COLUMNS = (
    Column("name", "Row"),
    Column("messages", "Messages"),
    Column("per_second", "Messages/s", show_count),
    Column("bytes_per_second", "Payload/s", show_size),
    Column("median_ms", "Median ms", lambda ms: "" if ms is None else f"{ms:.2f}"),
    Column("client_cpu", "Client", _percent),
    Column("server_cpu", "Server", _percent),
    Column("limit", "Limit"),
)


def add_to(app: typer.Typer) -> None:
    """Adds the subcommand."""
    verb(app, "bench", example="jetarrow bench --msgs 1000000 --size 256B", json=_SHAPE)(bench)


def bench(
    session: Session,
    msgs: Annotated[int, typer.Option(help="Maximum number of messages of a row.", min=1)] = 100_000,
    size_: Annotated[str, typer.Option("--size", help="Size of a payload.", metavar="SIZE")] = "128B",
    seconds: Annotated[
        Any, typer.Option(help="Maximum time that a row is measured.", parser=span, metavar="SPAN")
    ] = "5s",
    only: Annotated[
        list[str] | None,
        typer.Option(help=f"Only this row: {', '.join(row.name for row in ROWS)}.", metavar="NAME"),
    ] = None,
    storage: Storage = "file",
    replicas: Annotated[int, typer.Option(help="Number of replicas.", min=1, max=5)] = 1,
    system_context: Annotated[
        str | None,
        typer.Option("--system-context", help="A context of the system account, for the server's CPU.", metavar="NAME"),
    ] = None,
) -> None:
    """Measures publishing, reading, fetching, requests and key-value with a temporary stream and bucket.

    Each row has the limit that it met: client CPU, server, link, "not client or link", or "unknown", with the measured
    parts that show it. Stream and bucket are deleted at the end.
    """
    payload = b"x" * size(size_)
    if not seconds > 0:
        raise typer.BadParameter("it must be longer than 0s.", param_hint="--seconds")
    name = f"JETARROW_BENCH_{uuid.uuid4().hex[:8]}"
    plan = Plan(name, payload, msgs, seconds, storage, replicas, _chosen(only))
    with session.system_client(system_context) as system, _server_cpu(session, system) as server_cpu:
        rows: list[dict[str, Any]] = []
        try:
            link = _measured(session, plan, server_cpu, rows)
        except BaseException:
            # The rows before an error or Ctrl-C are whole.
            if rows and not session.as_json:
                _write_rows(rows)
            raise
    _write(session, plan, link, rows)


def _chosen(only: list[str] | None) -> tuple[Row, ...]:
    known = {row.name: row for row in ROWS}
    for name in only or ():
        if name not in known:
            raise typer.BadParameter(f"{name!r} is no row: give one of {', '.join(known)}.", param_hint="--only")
    return tuple(row for row in ROWS if not only or row.name in only)


@contextlib.contextmanager
def _server_cpu(
    session: Session, system: jetarrow.sync.Client | None, *, may_refuse: bool = False
) -> Iterator[ServerCpu | None]:
    """Read the CPU of servers in the block; None if the user may not request it."""
    from jetarrow.core.errors import Error
    from jetarrow.core.system_errors import SystemAccountError

    if system is None:
        # Without the remark of a user that may not publish to the system's subjects.
        with session.connect(error_cb=lambda _: None) as own, _server_cpu(session, own, may_refuse=True) as found:
            yield found
        return
    requests = system.system(timeout=session.given.get("timeout") or 1.0)

    def ask(server: str) -> tuple[float, int] | None:
        try:
            (answer,) = requests.varz(server=server)
        except (Error, TimeoutError, OSError):
            return None
        return answer.data.cpu / 100, max(1, answer.data.cores)

    try:
        requests.ping()
    except (SystemAccountError, TimeoutError):
        if not may_refuse:
            raise
        yield None
        return
    cpu = ServerCpu(ask)
    with cpu.reading():
        yield cpu


def _measured(session: Session, plan: Plan, server_cpu: ServerCpu | None, rows: list[dict[str, Any]]) -> Link:
    js = session.js
    connect = {**session.address(), **session.options(), "name": "jetarrow"}
    with session.progress("messages") as bar:

        def reports(row: Row) -> Report:
            task = bar.add_task(row.name, total=plan.most_of(row))
            return lambda done: bar.update(task, completed=done)

        try:
            # Within the block, because a signal may arrive before the response.
            js.add_stream(
                name=plan.name,
                subjects=[plan.name],
                storage=plan.storage,
                num_replicas=plan.replicas,
                description="temporary stream of jetarrow bench",
            )
            options = session.jetstream_options()
            return _run(
                lambda: measure(plan, connect, jetstream=options, server_cpu=server_cpu, reports=reports, results=rows)
            )
        finally:
            _delete(session, js, plan.name)


def _run(work: Callable[[], Coroutine[Any, Any, Link]]) -> Link:
    """As `asyncio.run`, but a signal cancels the work.

    A KeyboardInterrupt in the loop itself loses the step of a task that was about to run, and the task never ends.
    """
    runner = asyncio.Runner()
    with signals.deferred():
        loop = runner.get_loop()

    def cancel() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])

    with signals.stopping(cancel):
        try:
            return runner.run(work())
        finally:
            runner.close()
            # Also if the work was over when the signal came.
            if signals.has_stopped():
                raise KeyboardInterrupt


def _delete(session: Session, js: JetStream, name: str) -> None:
    """Delete stream and bucket, and name those that could not be deleted."""
    from jetarrow.js.errors import NotFoundError

    for stream in (name, f"KV_{name}"):
        try:
            js.delete_stream(stream)
        except NotFoundError:
            pass
        except Exception as error:
            session.say(f"warning: could not delete stream {stream}: {error}; run jetarrow stream rm {stream} --yes")


def _write(session: Session, plan: Plan, link: Link, rows: list[dict[str, Any]]) -> None:
    version = str(session.nc._server_info.get("version") or "")
    value = {
        "server": version,
        "size": len(plan.payload),
        "storage": plan.storage,
        "replicas": plan.replicas,
        "round_trip_ms": link.round_trip * 1000,
        "up_bytes_per_second": link.up,
        "down_bytes_per_second": link.down,
        "rows": rows,
    }
    if session.as_json:
        output.json_document(value)
        return
    _write_rows(rows)
    ways = ", ".join(
        f"{show_size(rate)}/s {way} the server" for way, rate in (("to", link.up), ("from", link.down)) if rate
    )
    options = f"storage {plan.storage}, replicas {plan.replicas}, server {version}"
    session.say(
        f"{show_size(len(plan.payload))} per message, {options}; round trip {link.round_trip * 1000:.2f} ms;"
        f" without a stream {ways or 'not measured'}"
    )


def _write_rows(rows: list[dict[str, Any]]) -> None:
    """Write the table, and a line for the limit of each row."""
    output.console().print(output.table_of(rows, _COLUMNS))
    for row in rows:
        output.line(f"{row['name']}: {row['limit']} ({row['reason']}) -> {row['advice']}")
