"""Public names of nats-py that jetarrow does not have, and what to do instead.

tests/migrate/test_missing.py compares them with the installed nats-py, with jetarrow, and with MIGRATION.md.
"""

from __future__ import annotations

_NATIVE = "remove the use: the connection is native, and this is nats-py's own protocol code"
_ITERATE = "iterate over the watcher, which ends when it is stopped"
_WHERE_DEFINED = "import it from the module that defines it"

# Names by module.
NAMES: dict[str, tuple[str, str]] = {
    "nats.aio.client": (
        "CONNECT_OP DEFAULT_BUFFER_SIZE EMPTY ERR_OP INFO_OP MAX_CONTROL_LINE_SIZE NATS_HDR_LINE NATS_HDR_LINE_SIZE"
        " OK_OP PING_OP PING_PROTO PONG PONG_OP PONG_PROTO PROTOCOL Parser STATUS_MSG_LEN TcpTransport Transport"
        " WebSocketTransport prot_command",
        _NATIVE,
    ),
    "nats.aio.transport": ("ProtocolError TcpTransport Transport WebSocketTransport", _NATIVE),
    "nats.js.client": ("NATS_HDR_LINE NATS_HDR_LINE_SIZE NO_RESPONDERS_STATUS", _NATIVE),
    "nats.js.manager": ("NATS_HDR_LINE NATS_HDR_LINE_SIZE", _NATIVE),
    "nats.protocol.command": ("Command hpub_cmd pub_cmd sub_cmd unsub_cmd", _NATIVE),
    "nats.protocol.parser": (
        "AWAITING_CONTROL_LINE AWAITING_MSG_PAYLOAD CRLF_SIZE ERR_OP_SIZE ERR_RE HMSG_RE INFO_RE"
        " MAX_CONTROL_LINE_SIZE MSG_END MSG_OP_SIZE MSG_RE OK OK_RE OK_SIZE PING PING_RE PING_SIZE PONG PONG_RE"
        " PONG_SIZE Parser",
        _NATIVE,
    ),
    "nats.js.errors": ("api", _WHERE_DEFINED),
    "nats.js.kv": ("logger", "use a logger of the program; jetarrow logs as `jetarrow`"),
    "nats.js.object_store": ("StopIterSentinel", _ITERATE),
}
# Single names with a remedy of their own.
SINGLE: dict[str, str] = {
    "nats.aio.client.DEFAULT_MAX_PAYLOAD_SIZE": "read nc.max_payload, the limit of the server",
    "nats.aio.client.ServerVersion.parse_version": "create ServerVersion(text), which has major, minor and patch",
    "nats.js.object_store.ObjectStore.ObjectWatcher.STOP_ITER": _ITERATE,
}
# Names of the successors, and modules with all of their names. MIGRATION.md lists them as "not there".
SUCCESSORS: dict[str, str] = dict.fromkeys(
    ("nats.client.connection", "nats.client.protocol", "nats.client.ParseError"),
    _NATIVE.replace("nats-py", "nats-core"),
)
# Classes whose objects the client creates: their constructors have other parameters.
CONSTRUCTORS: dict[str, str] = {
    "nats.js.client.JetStreamContext.PullSubscription": "call js.pull_subscribe or js.pull_subscribe_bind",
    "nats.js.client.JetStreamContext.PushSubscription": "call js.subscribe or js.subscribe_bind",
    "nats.js.kv.KeyValue.KeyWatcher": "call kv.watch or kv.watchall",
    "nats.js.object_store.ObjectStore.ObjectWatcher": "call store.watch",
}

# Remedies by the full name.
MISSING: dict[str, str] = {
    **{f"{module}.{name}": remedy for module, (names, remedy) in NAMES.items() for name in names.split()},
    **SINGLE,
}


def of_successors(path: str) -> str | None:
    """Return the remedy for a name of a successor that jetarrow does not have, or that is in such a module."""
    return next((SUCCESSORS[one] for one in SUCCESSORS if path == one or path.startswith(f"{one}.")), None)


# The same by class and member, for members of objects whose class is known: `ServerVersion.parse_version`.
MEMBERS: dict[str, str] = {".".join(path.split(".")[-2:]): remedy for path, remedy in SINGLE.items()}
