"""`jetarrow server`: the servers of the cluster, over the system account."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jetarrow.cli import output
from jetarrow.cli.json_shape import an_object, array_of
from jetarrow.cli.output import Column
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import counted, plain_time, show_server, show_size, show_span, show_time

if TYPE_CHECKING:
    import jetarrow.sync
    from jetarrow.system import ConnInfo, ServerAnswer, ServerAnswers, ServerInfo, ServerStats

group = typer.Typer(no_args_is_help=True, help="Servers, with a user of the system account: list, show, report.")

_ROW = "name id version cluster connections subscriptions cpu mem slow_consumers uptime rtt jetstream"
_INFO = (
    "name id version cluster domain tags host port start uptime connections total_connections subscriptions routes"
    " leafnodes cpu cores mem in_msgs out_msgs in_bytes out_bytes slow_consumers max_payload jetstream varz"
)
_CONNECTION = (
    "server cid name account user ip port lang version uptime idle rtt subscriptions pending_bytes in_msgs out_msgs"
    " in_bytes out_bytes"
)
_JETSTREAM = (
    "server enabled leader streams consumers messages bytes memory storage api_requests api_errors healthy error"
)
_REPORT = " ".join(
    [f"connections[].{key}" for key in _CONNECTION.split()] + [f"jetstream[].{key}" for key in _JETSTREAM.split()]
)

# Columns of a terminal that has room for the ids of servers.
_WIDE = 100

Server = Annotated[
    str | None, typer.Argument(metavar="SERVER", help="Name or id; the server of the connection if omitted.")
]


def add_to(app: typer.Typer) -> None:
    """Adds the group."""
    app.add_typer(group, name="server")


def _system(session: Session) -> jetarrow.sync.System:
    return session.nc.system(timeout=session.given.get("timeout") or 5.0)


def _remark_missing(session: Session, answers: ServerAnswers[Any]) -> None:
    if answers.missing:
        session.say(f"warning: {counted(answers.missing, 'known server')} did not answer")


def _seconds_since(start: datetime | None, now: datetime | None) -> float | None:
    return None if start is None else ((now or datetime.now(UTC)) - start).total_seconds()


def _row(answer: ServerAnswer[ServerStats]) -> dict[str, Any]:
    server, stats = answer.server, answer.data
    return {
        "name": server.name,
        "id": server.id,
        "version": server.version,
        "cluster": server.cluster,
        "connections": stats.connections,
        "subscriptions": stats.subscriptions,
        "cpu": stats.cpu,
        "mem": stats.mem,
        "slow_consumers": stats.slow_consumers,
        "uptime": _seconds_since(stats.start, server.time),
        "rtt": answer.rtt,
        "jetstream": stats.jetstream is not None,
    }


@verb(group, "ls", example="jetarrow server ls", json=array_of(_ROW))
def ls(session: Session) -> None:
    """Lists the servers: load, memory, slow consumers, uptime and round trip time."""
    answers = _system(session).ping()
    rows = [_row(answer) for answer in answers]
    # An id that is the name as well, or that does not fit, is left out. `server info` shows it.
    has_room = output.console().width >= _WIDE and any(row["name"] != row["id"] for row in rows)
    columns = [
        Column("name", "Server", show_server),
        *([Column("id", "Id", show_server)] if has_room else []),
        Column("version", "Version"),
        *([Column("cluster", "Cluster")] if any(row["cluster"] for row in rows) else []),
        Column("connections", "Conns"),
        Column("subscriptions", "Subs"),
        Column("cpu", "CPU", lambda percent: f"{percent:.0f}%"),
        Column("mem", "Memory", show_size),
        Column("slow_consumers", "Slow"),
        Column("uptime", "Uptime", show_span),
        Column("rtt", "RTT", lambda seconds: f"{seconds * 1000:.1f}ms"),
    ]
    session.rows(rows, columns, "no server answered")
    _remark_missing(session, answers)


@verb(group, "info", example="jetarrow server info n1", json=an_object(_INFO))
def info(session: Session, name: Server = None) -> None:
    """Shows configuration and state of a server; `--json` also writes its whole response as `varz`."""
    wanted = name or str(session.nc._server_info.get("server_id"))
    (answer,) = _system(session).varz(server=wanted)
    known, found = answer.server, answer.data
    value = {
        "name": known.name,
        "id": known.id,
        "version": known.version,
        "cluster": known.cluster,
        "domain": known.domain,
        "tags": known.tags or [],
        "host": found.host,
        "port": found.port,
        "start": plain_time(found.start),
        "uptime": _seconds_since(found.start, found.now),
        "connections": found.connections,
        "total_connections": found.total_connections,
        "subscriptions": found.subscriptions,
        "routes": found.routes,
        "leafnodes": found.leafnodes,
        "cpu": found.cpu,
        "cores": found.cores,
        "mem": found.mem,
        "in_msgs": found.in_msgs,
        "out_msgs": found.out_msgs,
        "in_bytes": found.in_bytes,
        "out_bytes": found.out_bytes,
        "slow_consumers": found.slow_consumers,
        "max_payload": found.max_payload,
        "jetstream": known.jetstream,
        "varz": found.as_dict(),
    }
    config = found.jetstream.config if found.jetstream else None
    session.facts(value, _facts(known, value, config))


def _facts(known: ServerInfo, value: dict[str, Any], config: Any) -> list[tuple[str, Any]]:
    """The names and values of `server info` for people."""
    sync = None
    if config is not None:
        sync = "every write" if config.sync_always else f"every {show_span(config.sync_interval)}"
    return [
        ("Server", known.name),
        ("Id", known.id),
        ("Version", known.version),
        ("Cluster", known.cluster),
        ("Domain", known.domain),
        ("Tags", known.tags),
        ("Address", f"{value['host']}:{value['port']}"),
        ("Started", show_time(value["start"])),
        ("Uptime", show_span(value["uptime"])),
        ("Clients", f"{value['connections']:,} of {value['total_connections']:,} since the start"),
        ("Subscriptions", value["subscriptions"]),
        ("Routes", value["routes"]),
        ("Leaf nodes", value["leafnodes"]),
        ("CPU", f"{value['cpu']:.0f} % of one of {value['cores']}"),
        ("Memory", show_size(value["mem"])),
        ("Received", f"{counted(value['in_msgs'], 'message')}, {show_size(value['in_bytes'])}"),
        ("Sent", f"{counted(value['out_msgs'], 'message')}, {show_size(value['out_bytes'])}"),
        ("Slow consumers", value["slow_consumers"]),
        ("Largest message", show_size(value["max_payload"])),
        ("JetStream", known.jetstream),
        ("Synced to disk", sync),
        ("Storage limit", show_size(config.max_storage) if config is not None else None),
        ("Memory limit", show_size(config.max_memory) if config is not None else None),
    ]


def _traffic(one: dict[str, Any]) -> int:
    return int(one["in_bytes"] + one["out_bytes"])


def _connection(server: ServerInfo, one: ConnInfo) -> dict[str, Any]:
    names = set(_CONNECTION.split()) - {"server", "user"}
    values: dict[str, Any] = {name: getattr(one, name) for name in names}
    return {"server": server.name, **values, "user": one.authorized_user}


def _jetstream(system: jetarrow.sync.System) -> list[dict[str, Any]]:
    health = {answer.server.id: answer.data for answer in system.healthz()}
    rows = []
    for answer in system.jsz():
        found, healthy = answer.data, health.get(answer.server.id)
        meta = found.meta_cluster
        rows.append(
            {
                "server": answer.server.name,
                "enabled": not found.disabled,
                "leader": meta is not None and meta.leader == answer.server.name,
                "streams": found.streams,
                "consumers": found.consumers,
                "messages": found.messages,
                "bytes": found.bytes,
                "memory": found.memory,
                "storage": found.storage,
                "api_requests": found.api.total if found.api else 0,
                "api_errors": found.api.errors if found.api else 0,
                "healthy": None if healthy is None else healthy.ok,
                "error": None if healthy is None else healthy.error,
            }
        )
    return rows


_CONNECTION_COLUMNS = (
    Column("server", "Server", show_server),
    Column("cid", "Cid"),
    Column("name", "Client"),
    Column("account", "Account"),
    Column("ip", "Address"),
    Column("in_msgs", "Msgs in"),
    Column("out_msgs", "Msgs out"),
    Column("in_bytes", "Bytes in", show_size),
    Column("out_bytes", "Bytes out", show_size),
    Column("pending_bytes", "Pending", show_size),
    Column("subscriptions", "Subs"),
    Column("rtt", "RTT"),
)
_JETSTREAM_COLUMNS = (
    Column("server", "Server", show_server),
    Column("leader", "Leader"),
    Column("streams", "Streams"),
    Column("consumers", "Consumers"),
    Column("messages", "Messages"),
    Column("bytes", "Size", show_size),
    Column("storage", "Storage", show_size),
    Column("memory", "Memory", show_size),
    Column("api_requests", "API"),
    Column("api_errors", "Errors"),
    Column("healthy", "Healthy"),
    Column("error", "Cause"),
)


@verb(group, "report", example="jetarrow server report --top 20", json=an_object(_REPORT))
def report(
    session: Session,
    top: Annotated[int, typer.Option(help="Number of connections; the most bytes first.", min=1)] = 10,
    account: Annotated[str | None, typer.Option(help="Only connections of this account.", metavar="NAME")] = None,
) -> None:
    """Lists the connections with the most traffic, and JetStream by server with its health."""
    system = _system(session)
    answers = system.connz(account=account, auth=True)
    found = [_connection(answer.server, one) for answer in answers for one in answer.data.connections or ()]
    rows = sorted(found, key=lambda one: (-_traffic(one), one["server"], one["cid"]))[:top]
    stores = _jetstream(system)
    if session.as_json:
        output.json_document({"connections": rows, "jetstream": stores})
    else:
        console = output.console()
        console.print(output.table_of(rows, _CONNECTION_COLUMNS, f"Connections ({len(rows):,} of {len(found):,})"))
        console.print(output.table_of(stores, _JETSTREAM_COLUMNS, "JetStream"))
    _remark_missing(session, answers)
