"""The status of a connection."""

from collections.abc import Sequence
from typing import Any, final

from jetarrow._native.call import Call

@final
class PoolServer:
    """One server of the pool."""

    @property
    def url(self) -> str:
        """The server's URL, without user and password."""

    @property
    def failures(self) -> int:
        """Failed attempts to connect since the last success."""

    @property
    def discovered(self) -> bool:
        """True if another server announced it."""

class StatusVerbs:
    """Verbs of a `Connection`."""

    @property
    def breaks(self) -> int:
        """Number of disconnects so far."""
    @property
    def is_connected(self) -> bool:
        """True while connected to a server."""
    @property
    def is_closed(self) -> bool:
        """True if the client no longer reconnects."""
    @property
    def max_payload(self) -> int:
        """The server's limit for one message with its headers, in bytes."""
    @property
    def server_version(self) -> str:
        """The server's version."""
    @property
    def client_id(self) -> int:
        """The server's number of this connection."""
    @property
    def client_ip(self) -> str:
        """The client's address as the server sees it."""
    @property
    def server_info(self) -> dict[str, Any]:
        """The server's INFO, with the protocol's names."""
    @property
    def connected_url(self) -> str | None:
        """The server's URL, without user and password; None while disconnected."""
    @property
    def servers(self) -> list[PoolServer]:
        """All servers of the pool."""
    @property
    def last_error(self) -> Exception | None:
        """The last error that no call waited for."""
    @property
    def stats(self) -> dict[str, int]:
        """Counters so far: in_msgs, out_msgs, in_bytes and out_bytes (payloads only), reconnects, errors_received."""
    def troubles(self) -> tuple[int, int]:
        """Return the number of resent messages, and of messages that subscriptions dropped."""

    def moved(self) -> dict[str, dict[str, int]]:
        """Return counters of each verb, by its name: in_msgs, out_msgs, in_bytes, out_bytes, resent."""

    def flying(self) -> tuple[int, int]:
        """Return the number of messages of `publish_batch` in flight, and their bytes."""

    def ack_latency(self) -> tuple[list[tuple[float, int]], int, float]:
        """Return a histogram: (maximum seconds, count) per bucket, the count above the last, and the sum of seconds."""

    def force_reconnect(self) -> Call[None]:
        """Disconnect and reconnect, to another server if there are several."""
    def set_server_pool(self, servers: Sequence[str]) -> None:
        """Replace the list of servers, for the next reconnect.

        Args:
            servers: URLs of servers.

        Raises:
            BadAddressError: A URL is invalid, or its transport differs from the connection's.
        """
