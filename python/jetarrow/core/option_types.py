"""Keyword options as typed dictionaries: `**options: Unpack[ConnectOptions]`.

For type checkers and editors: no module imports this one at run time. Durations are in seconds. An option that is not
given has the default of the function that receives it; a test compares names and types with that function's signature.
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
    """Options of `jetarrow.connect` and `jetarrow.sync.connect`, except the callbacks."""

    name: str | None
    """Client name, shown by the server's monitoring; default none."""
    pedantic: bool
    """nats-py's, without effect."""
    verbose: bool
    """nats-py's, without effect."""
    allow_reconnect: bool
    """False closes the connection at the first disconnect; default True."""
    connect_timeout: float | None
    """Seconds for one attempt at one server; default 2."""
    reconnect_time_wait: float
    """Seconds between two attempts at one server; default 2."""
    reconnect_jitter: float
    """Most seconds of a random addition to this wait; default 0.1."""
    reconnect_jitter_tls: float
    """The same for connections with TLS; default 1."""
    ignore_discovered_servers: bool
    """Use only the given servers, and not those that they announce; default False."""
    max_reconnect_attempts: int
    """Failed attempts after which a server is removed from the pool; 0 or less has no limit; default 60."""
    ping_interval: float
    """Seconds between pings; default 10."""
    max_outstanding_pings: int
    """Ping intervals without data from the server after which the client disconnects; default 2."""
    dont_randomize: bool
    """Try the servers in the given order; default False."""
    flusher_queue_size: int
    """nats-py's, without effect."""
    no_echo: bool
    """The server does not send the client its own messages; default False."""
    tls: ssl.SSLContext | TLS | None
    """Requires TLS, with these settings; default by the scheme of the address."""
    tls_hostname: str | None
    """Host name that the server's certificate must have; default the address's host."""
    tls_handshake_first: bool
    """The TLS handshake precedes the server's INFO; default False."""
    user: str | CredentialCallback | None
    """A string or a function; default from the address."""
    password: str | CredentialCallback | None
    """A string or a function; default from the address."""
    token: str | TokenCallback | None
    """A string or a function; default from the address."""
    drain_timeout: float
    """Maximum seconds that `drain()` waits for the subscriptions; default 30."""
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
    """First tokens of reply subjects; default `_INBOX`."""
    pending_size: int
    """Maximum bytes of messages and requests that are queued while disconnected; default 2 MiB."""
    flush_timeout: float | None
    """nats-py's, without effect."""
    ws_connection_headers: Mapping[str, list[str]] | None
    """Headers of the request that opens a WebSocket, each with its values; default none."""
    reconnect_to_server_handler: ReconnectToServerHandler | None
    """Called with servers and INFO; returns the server to try and the seconds to wait before it; default none."""
    skip_subject_validation: bool
    """Skips the checks of subjects, except for white space and control characters; default False."""
    loop: object
    """nats-py's, without effect."""
    context: str | bool | None
    """A context of the `nats` tool by name, True the selected one; default none."""


class ConnectOptions(_ConnectOptions, total=False):
    """Options of `jetarrow.connect`. Callbacks are coroutine functions and run one at a time."""

    error_cb: ErrorCallback | None
    """Called with each error that no call raises; default the logger "jetarrow"."""
    disconnected_cb: Callback | None
    """Called after each disconnect; default none."""
    closed_cb: Callback | None
    """Called when the connection is closed, after `disconnected_cb`; default none."""
    discovered_server_cb: Callback | None
    """Called when a server announces new ones; default none."""
    reconnected_cb: Callback | None
    """Called after each reconnect; default none."""
    lame_duck_mode_cb: Callback | None
    """Called when the server announces its shutdown (lame duck mode); default none."""


class SyncConnectOptions(_ConnectOptions, total=False):
    """Options of `jetarrow.sync.connect`. Callbacks are plain functions and run one at a time in a thread."""

    error_cb: PlainErrorCallback | None
    """Called with each error that no call raises; default the logger "jetarrow"."""
    disconnected_cb: PlainCallback | None
    """Called after each disconnect; default none."""
    closed_cb: PlainCallback | None
    """Called when the connection is closed, after `disconnected_cb`; default none."""
    discovered_server_cb: PlainCallback | None
    """Called when a server announces new ones; default none."""
    reconnected_cb: PlainCallback | None
    """Called after each reconnect; default none."""
    lame_duck_mode_cb: PlainCallback | None
    """Called when the server announces its shutdown (lame duck mode); default none."""


class SubscribeOptions(TypedDict, total=False):
    """Options of `jetarrow.sync.Client.subscribe`."""

    max_msgs: int | None
    """Number of messages after which the subscription ends; default 0, no limit."""
    pending_msgs_limit: int | None
    """Maximum buffered messages; further messages are dropped. 0 or less has no limit."""
    pending_bytes_limit: int | None
    """Maximum buffered payload bytes, likewise."""
