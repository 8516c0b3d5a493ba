"""What a client knows about its connection."""

from __future__ import annotations

import contextlib
import functools
import ssl
from typing import Any, NamedTuple
from urllib.parse import ParseResult, urlparse

from jetarrow import _jetarrow
from jetarrow.core.errors import Error
from jetarrow.core.nuid import NUID
from jetarrow.core.options import DEFAULT_INBOX_PREFIX
from jetarrow.core.servers import Server, ServerVersion, Srv
from jetarrow.core.session import Drainable, Session

# Until a server has announced its own.
DEFAULT_MAX_PAYLOAD_SIZE = 1024 * 1024
_NO_STATS = ("in_msgs", "out_msgs", "in_bytes", "out_bytes", "reconnects", "errors_received")


class AckLatency(NamedTuple):
    """How long acknowledgements took: `Status.ack_latency`."""

    #: By upper bound in seconds (powers of two of a microsecond): acks within it and beyond the bound before.
    counts: tuple[tuple[float, int], ...]
    #: Acks beyond the last bound.
    beyond: int
    #: Seconds of all acks together.
    total: float


class Status:
    """The properties of a client, the same on both faces."""

    DISCONNECTED = 0
    CONNECTED = 1
    CLOSED = 2
    RECONNECTING = 3
    CONNECTING = 4
    DRAINING_SUBS = 5
    DRAINING_PUBS = 6

    _session: Session

    def _any_connection(self) -> _jetarrow.Connection | None:
        """The connection; a closed one too."""
        return self._session.connection or self._session.last_connection

    @property
    def _status(self) -> int:
        session, connection = self._session, self._any_connection()
        if session.is_closed:
            return self.CLOSED
        if session.draining:
            return self.DRAINING_SUBS if session.draining == "subs" else self.DRAINING_PUBS
        if session.connecting:
            return self.CONNECTING
        if connection is None:
            return self.DISCONNECTED
        return self.CONNECTED if connection.is_connected else self.RECONNECTING

    @property
    def is_connected(self) -> bool:
        """True while the link to a server is up."""
        return self._status == self.CONNECTED or self.is_draining

    @property
    def is_closed(self) -> bool:
        """True once `close()` was called, or no reconnect is tried any more."""
        return self._status == self.CLOSED

    @property
    def is_connecting(self) -> bool:
        """True while `connect()` is at work."""
        return self._status == self.CONNECTING

    @property
    def is_reconnecting(self) -> bool:
        """True while the link is down and a new one is tried."""
        return self._status == self.RECONNECTING

    @property
    def is_draining(self) -> bool:
        """True while `drain()` is at work."""
        return self._status in (self.DRAINING_SUBS, self.DRAINING_PUBS)

    @property
    def is_draining_pubs(self) -> bool:
        """True while `drain()` has ended the subscriptions and sends what is queued."""
        return self._status == self.DRAINING_PUBS

    @property
    def last_error(self) -> Exception | None:
        """The last error that no call raised, or that ended `connect()`."""
        return self._session.last_error

    @property
    def connected_url(self) -> ParseResult | None:
        """The address of the server, without user and password; None while there is no connection."""
        connection = self._any_connection()
        url = None if connection is None else connection.connected_url
        return None if url is None else urlparse(url)

    @property
    def servers(self) -> list[ParseResult]:
        """The addresses of all servers that are known, without user and password."""
        return [urlparse(server.url) for server in self._servers()]

    @property
    def discovered_servers(self) -> list[ParseResult]:
        """The addresses that servers have announced."""
        return [urlparse(server.url) for server in self._servers() if server.discovered]

    @property
    def server_pool(self) -> list[Server]:
        """All servers, with the failed attempts since the last success."""
        return [Server(urlparse(server.url), server.failures) for server in self._servers()]

    def _servers(self) -> list[_jetarrow.PoolServer]:
        connection = self._any_connection()
        return [] if connection is None else connection.servers

    # nats-py's own, which programs are seen to read.

    @property
    def _server_info(self) -> dict[str, Any]:
        connection = self._any_connection()
        return {} if connection is None else connection.server_info

    @property
    def _current_server(self) -> Srv | None:
        connection = self._any_connection()
        url = None if connection is None else connection.connected_url
        if connection is None or url is None:
            return None
        known = next((server for server in connection.servers if server.url == url), None)
        return Srv(
            urlparse(url),
            reconnects=0 if known is None else known.failures,
            did_connect=True,
            discovered=known is not None and known.discovered,
            server_version=connection.server_version,
        )

    @property
    def _inbox_prefix(self) -> bytearray:
        given = self._session.options.get("inbox_prefix", DEFAULT_INBOX_PREFIX)
        return bytearray(given.encode() if isinstance(given, str) else given)

    @functools.cached_property
    def _nuid(self) -> NUID:
        return NUID()

    @property
    def options(self) -> dict[str, Any]:
        """What `connect` was given, without secrets."""
        return self._session.options

    @property
    def max_payload(self) -> int:
        """The server's limit for one message, in bytes, headers counted."""
        connection = self._any_connection()
        return DEFAULT_MAX_PAYLOAD_SIZE if connection is None else connection.max_payload

    @property
    def client_id(self) -> int | None:
        """The number that the server gave this connection; None without one."""
        connection = self._any_connection()
        return None if connection is None or connection.is_closed else connection.client_id

    @property
    def client_ip(self) -> str | None:
        """Our address as the server sees it; None without a connection."""
        connection = self._any_connection()
        return None if connection is None or connection.is_closed else connection.client_ip

    @property
    def connected_server_version(self) -> ServerVersion:
        """The version of the server that we are, or were last, connected to."""
        connection = self._any_connection()
        version = "" if connection is None else connection.server_version
        return ServerVersion(version or "0.0.0-unknown")

    @property
    def pending_data_size(self) -> int:
        """Bytes of whole messages that were published, or requested, and not sent yet."""
        connection = self._any_connection()
        return 0 if connection is None else connection.pending_bytes

    @property
    def stats(self) -> dict[str, int]:
        """Counts so far: in_msgs, out_msgs, in_bytes and out_bytes (payloads only), reconnects, errors_received."""
        connection = self._any_connection()
        return dict.fromkeys(_NO_STATS, 0) if connection is None else connection.stats

    def metrics(self) -> dict[str, int]:
        """What this client has counted, read from the native counters; `jetarrow.metrics` tells it to Prometheus.

        Returns:
            As `stats`: in_msgs, out_msgs, in_bytes, out_bytes, reconnects, errors_received; queue_bytes (published
            or requested, not sent yet); in_flight and in_flight_bytes (published with `publish_batch`, `publish_async`,
            by publishers or with the async face's `js.publish`, and not acknowledged yet); resent (published once more,
            after a break or because no stream's leader was there) and dropped (subscriptions had no room); and
            connected (1 or 0).
        """
        connection = self._any_connection()
        resent, dropped = (0, 0) if connection is None else connection.troubles()
        unanswered = [publisher.unanswered() for publisher in self._publishers()]
        if connection is not None:
            unanswered.append(connection.flying())
        return {
            **self.stats,
            "queue_bytes": self.pending_data_size,
            "in_flight": sum(messages for messages, _ in unanswered),
            "in_flight_bytes": sum(size for _, size in unanswered),
            "resent": resent,
            "dropped": dropped,
            "connected": int(self.is_connected),
        }

    def metrics_by_verb(self) -> dict[str, dict[str, int]]:
        """What each verb of this client has moved, read from the native counters.

        Returns:
            By verb in_msgs, out_msgs, in_bytes and out_bytes (of payloads), and resent. The verbs: `publish` (core
            messages, answers among them), `request` (JetStream's API too), `publisher` (`js.publish`, `publish_async`
            and publishers, with their acks), `publish_batch` (with its acks), `subscribe` (push consumers too), `fetch`
            (of pull consumers), `read` and `ack` (of what was consumed). Empty before the first connection.
        """
        connection = self._any_connection()
        return {} if connection is None else connection.moved()

    def ack_latency(self) -> AckLatency:
        """How long the server took to acknowledge what was published, counted natively for every message.

        From the moment a message was handed to the connection first until its ack was read. Counted are
        `publish_async`, publishers, `publish_batch` in the mode window and the async face's `js.publish`.
        """
        connection = self._any_connection()
        if connection is None:
            return AckLatency((), 0, 0.0)
        bounded, beyond, total = connection.ack_latency()
        return AckLatency(tuple(bounded), beyond, total)

    def _publishers(self) -> list[Drainable]:
        while True:
            # Prometheus asks from a thread of its own, while others make publishers.
            with contextlib.suppress(RuntimeError):
                return list(self._session.publishers)

    @property
    def ssl_context(self) -> ssl.SSLContext:
        """The context given as `tls`, or a default one.

        Raises:
            Error: `tls` is a `jetarrow.TLS`.
        """
        tls = self._session.tls
        if tls is None:
            return ssl.create_default_context()
        if not isinstance(tls, ssl.SSLContext):
            raise Error("nats: no ssl context provided: tls is a jetarrow.TLS")
        return tls
