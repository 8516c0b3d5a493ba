"""NATS JetStream for Python with a native core.

    import jetarrow

    nc = await jetarrow.connect("nats://127.0.0.1:4222")
    js = nc.jetstream()
    result = await js.publish_batch("events.new", [b"one", b"two"])

`jetarrow.sync` has the same API without `await`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Unpack

from jetarrow import _interpreter
from jetarrow.core.arguments import DEFAULT_SERVERS

if TYPE_CHECKING:
    from jetarrow import aio, errors, js, nuid, server, sync
    from jetarrow._jetarrow import __version__
    from jetarrow.client import Client
    from jetarrow.client import Client as NATS
    from jetarrow.core.option_types import ConnectOptions
    from jetarrow.core.tls import TLS
    from jetarrow.jetstream.binary_schema import ProtobufSchema
    from jetarrow.jetstream.registry import SchemaRegistry
    from jetarrow.workers import Backoff, Reject, worker

_interpreter.check()

__all__ = [
    "NATS",
    "TLS",
    "Backoff",
    "Client",
    "ProtobufSchema",
    "Reject",
    "SchemaRegistry",
    "__version__",
    "aio",
    "connect",
    "errors",
    "js",
    "nuid",
    "server",
    "sync",
    "worker",
]


async def connect(servers: str | list[str] = DEFAULT_SERVERS, **options: Unpack[ConnectOptions]) -> Client:
    """Connects to the first server that answers, and returns the client.

    Each server is tried once. If `max_reconnect_attempts` is below 0, the servers are tried until one answers.

    Args:
        servers: One address, several separated by commas, or a list: `nats://host:port`, `ws://` and `wss://` for
            WebSocket, `tls://` for TLS. One `tls://` address makes TLS required for all servers.
        error_cb: Called with each error that no call raises, failed connection attempts included. Without it,
            errors are logged by the logger "jetarrow". All callbacks are coroutine functions and run one at a time.
        disconnected_cb: Called after each disconnect.
        reconnected_cb: Called after each reconnect.
        closed_cb: Called when the connection is closed, after `disconnected_cb`.
        discovered_server_cb: Called when a server announces new ones.
        lame_duck_mode_cb: Called when the server announces its shutdown (lame duck mode).
        name: Client name, shown by the server's monitoring.
        allow_reconnect: False closes the connection at the first disconnect.
        connect_timeout: Seconds for one attempt at one server; None has no limit.
        reconnect_time_wait: Seconds between two attempts at one server, plus the jitter. The first attempt has no
            delay.
        reconnect_jitter: Most seconds of a random addition to `reconnect_time_wait`, so that the clients of a
            restarted server spread.
        reconnect_jitter_tls: The same for connections with TLS.
        ignore_discovered_servers: Use only the given servers, and not those that they announce.
        max_reconnect_attempts: Failed attempts after which a server is removed from the pool. The connection is
            closed when the pool is empty. 0 or less has no limit.
        ping_interval: Seconds between pings.
        max_outstanding_pings: Number of ping intervals without data from the server after which the client
            disconnects.
        dont_randomize: Try the servers in the given order.
        no_echo: The server does not send the client its own messages.
        tls: Requires TLS. An `ssl.SSLContext` provides trusted CAs, verification and host name check. Its client
            certificate cannot be read: use `jetarrow.TLS` for one.
        tls_hostname: Host name that the server's certificate must have, instead of the address's host.
        tls_handshake_first: The TLS handshake precedes the server's INFO; the server needs the same setting.
        user: A string or a function; or as `nats://user:password@host`.
        password: Likewise.
        token: A string or a function; or as `nats://token@host`.
        user_credentials: Path of a credentials file, (JWT file, seed file), or `RawCredentials`. Files are read
            again at each reconnect.
        nkeys_seed: Path of a file with an nkey seed.
        nkeys_seed_str: The seed itself.
        user_jwt_cb: Returns the user's JWT. Like the other functions, it must not block.
        signature_cb: Called with the server's nonce, returns it signed (base64).
        inbox_prefix: First tokens of reply subjects.
        drain_timeout: Maximum seconds that `drain()` waits for the subscriptions.
        pending_size: Maximum bytes of messages and requests that are queued while disconnected.
        reconnect_to_server_handler: Called with the servers and the last INFO; returns the server to try (None: the
            first) and the seconds to wait before the attempt.
        pedantic: nats-py's, without effect.
        verbose: nats-py's, without effect.
        flusher_queue_size: nats-py's, without effect.
        flush_timeout: nats-py's, without effect.
        skip_subject_validation: True skips the checks of subjects in `publish`, `request` and `subscribe`, except
            the check for white space and control characters.
        loop: nats-py's, without effect.
        ws_connection_headers: Headers of the request that opens a WebSocket, by name, each with its values.
        context: Name of a context of the `nats` tool. Its servers, credentials, TLS and JetStream domain are used
            unless an option here sets them. True is the context of $NATS_CONTEXT, else the selected one.

    Raises:
        NoServersError: No server could be reached; the text has the addresses and the causes.
        AuthorizationError: A server rejected the credentials.
        SecureConnFailedError: The TLS handshake failed.
        SecureConnWantedError: TLS is required, and the server does not offer it.
        InvalidUserCredentialsError: The credentials are invalid.
        FileNotFoundError: The credentials file or the context does not exist.
        InvalidCallbackTypeError: A callback is not a coroutine function.
        BadAddressError: An address is invalid.
        ValueError: An option has an invalid value.
        TypeError: An option has a wrong type.
        UnsupportedError: The context has a field that jetarrow does not support.
    """
    from jetarrow.client import Client

    nc = Client()
    await nc.connect(servers, **options)
    return nc


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # The native module is loaded on first use: `jetarrow.server` and the pytest plugin do not need it.
        if name in ("NATS", "Client"):
            from jetarrow.client import Client

            return Client
        if name == "TLS":
            from jetarrow.core.tls import TLS

            return TLS
        if name == "ProtobufSchema":
            from jetarrow.jetstream.binary_schema import ProtobufSchema

            return ProtobufSchema
        if name == "SchemaRegistry":
            from jetarrow.jetstream.registry import SchemaRegistry

            return SchemaRegistry
        if name in ("Backoff", "Reject", "worker"):
            return getattr(importlib.import_module(f"{__name__}.workers"), name)
        if name == "__version__":
            from jetarrow._jetarrow import __version__

            return __version__
        # nats-py provides these after `import nats`: `nats.errors.TimeoutError`, `nats.js.api.StreamConfig`.
        if name in ("aio", "errors", "js", "nuid", "polars", "protocol", "server", "sync"):
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
