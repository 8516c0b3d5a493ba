"""Options that are passed on as keywords, as typed dictionaries: `**options: Unpack[ConnectOptions]`.

For type checkers and editors only: nothing imports this module when the program runs. Durations are in seconds. What is
not given has the default of the function behind; a test holds names and types to its signature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from jetarrow.core.events import Callback, ErrorCallback, PlainCallback, PlainErrorCallback
    from jetarrow.core.options import (
        CredentialCallback,
        Credentials,
        JWTCallback,
        SignatureCallback,
        TokenCallback,
    )
    from jetarrow.core.servers import ReconnectToServerHandler
    from jetarrow.core.tls import TLS


class _ConnectOptions(TypedDict, total=False):
    """Options of both `connect`s: all but the callbacks."""

    name: str | None
    """Shown by the server's monitoring; default none."""
    pedantic: bool
    """nats-py's, without effect."""
    verbose: bool
    """nats-py's, without effect."""
    allow_reconnect: bool
    """False closes the connection at the first break; default True."""
    connect_timeout: float | None
    """Seconds for one attempt at one server; default 2."""
    reconnect_time_wait: float
    """Most seconds between two attempts at a server; default 2."""
    max_reconnect_attempts: int
    """Failed attempts at one server until it is given up, 0 or less for never; default 60."""
    ping_interval: float
    """Seconds between pings; default 10."""
    max_outstanding_pings: int
    """Intervals without a word of the server until the connection is given up; default 2."""
    dont_randomize: bool
    """Try the servers in the given order; default False."""
    flusher_queue_size: int
    """nats-py's, without effect."""
    no_echo: bool
    """The server does not send us our own messages; default False."""
    tls: ssl.SSLContext | TLS | None
    """How to speak TLS; default as the address says."""
    tls_hostname: str | None
    """The name that the server's certificate must carry; default the address's host."""
    tls_handshake_first: bool
    """TLS begins before the server's first word; default False."""
    user: str | CredentialCallback | None
    """A string or a function; default as in the address."""
    password: str | CredentialCallback | None
    """A string or a function; default as in the address."""
    token: str | TokenCallback | None
    """A string or a function; default as in the address."""
    drain_timeout: float
    """Seconds that `drain()` gives the subscriptions; default 30."""
    signature_cb: SignatureCallback | None
    """Called with the server's nonce, returns it signed (base64); default none."""
    user_jwt_cb: JWTCallback | None
    """Returns the user's JWT; default none."""
    user_credentials: Credentials | None
    """Path of a credentials file, (JWT file, seed file), or `RawCredentials`; default none."""
    nkeys_seed: str | None
    """Path of a file with an nkey seed; default none."""
    nkeys_seed_str: str | None
    """An nkey seed; default none."""
    inbox_prefix: str | bytes
    """First tokens of the subjects that answers come to; default `_INBOX`."""
    pending_size: int
    """Bytes that may be published while there is no connection; default 2 MiB."""
    flush_timeout: float | None
    """nats-py's, without effect."""
    ws_connection_headers: Mapping[str, list[str]] | None
    """Cannot be sent: anything but None is an `UnsupportedError`."""
    reconnect_to_server_handler: ReconnectToServerHandler | None
    """Called with servers and INFO, returns the server to try and the seconds to wait before; default none."""
    skip_subject_validation: bool
    """nats-py's, without effect: subjects are always checked."""
    loop: object
    """nats-py's, without effect."""
    context: str | bool | None
    """A context of the `nats` tool by name, True the selected one; default none."""


class ConnectOptions(_ConnectOptions, total=False):
    """Options of `jetarrow.connect`. All callbacks are coroutine functions, and run one after the other."""

    error_cb: ErrorCallback | None
    """Called with each error that no call raises; default the log "jetarrow"."""
    disconnected_cb: Callback | None
    """Called once for each time that the connection breaks; default none."""
    closed_cb: Callback | None
    """Called at the end, after `disconnected_cb`; default none."""
    discovered_server_cb: Callback | None
    """Called when a server announces new ones; default none."""
    reconnected_cb: Callback | None
    """Called once for each time that the connection is back; default none."""
    lame_duck_mode_cb: Callback | None
    """Called when the server is about to shut down; default none."""


class SyncConnectOptions(_ConnectOptions, total=False):
    """Options of `jetarrow.sync.connect`. Callbacks are plain functions, and run one after the other in a thread."""

    error_cb: PlainErrorCallback | None
    """Called with each error that no call raises; default the log "jetarrow"."""
    disconnected_cb: PlainCallback | None
    """Called once for each time that the connection breaks; default none."""
    closed_cb: PlainCallback | None
    """Called at the end, after `disconnected_cb`; default none."""
    discovered_server_cb: PlainCallback | None
    """Called when a server announces new ones; default none."""
    reconnected_cb: PlainCallback | None
    """Called once for each time that the connection is back; default none."""
    lame_duck_mode_cb: PlainCallback | None
    """Called when the server is about to shut down; default none."""


class SubscribeOptions(TypedDict, total=False):
    """Options of the sync twin's `nc.subscribe`."""

    max_msgs: int | None
    """Number of messages after which it ends; default 0, no limit."""
    pending_msgs_limit: int | None
    """Most messages that may wait to be taken; what comes beyond it is dropped. 0 or less is no limit."""
    pending_bytes_limit: int | None
    """Most payload bytes that may wait to be taken, likewise."""
