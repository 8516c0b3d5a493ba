"""What is known of the connection."""

from collections.abc import Sequence
from typing import Any, final

from jetarrow._native.call import Call

@final
class PoolServer:
    """One server that a connection may use."""

    @property
    def url(self) -> str:
        """Its address, without user and password."""

    @property
    def failures(self) -> int:
        """Failed attempts to connect since the last success."""

    @property
    def discovered(self) -> bool:
        """True where another server announced it."""

class StatusVerbs:
    """Of a `Connection`."""

    @property
    def breaks(self) -> int:
        """How often the link has broken so far."""
    @property
    def is_connected(self) -> bool:
        """True while the link is up."""
    @property
    def is_closed(self) -> bool:
        """True once no reconnect is tried any more."""
    @property
    def max_payload(self) -> int:
        """The server's limit for one message, in bytes, headers counted."""
    @property
    def server_version(self) -> str:
        """Version of the server."""
    @property
    def client_id(self) -> int:
        """The number that the server gave this connection."""
    @property
    def client_ip(self) -> str:
        """Our address as the server sees it."""
    @property
    def server_info(self) -> dict[str, Any]:
        """The server's INFO, by the names of the protocol."""
    @property
    def connected_url(self) -> str | None:
        """Address of the server, without user and password; None while there is no connection."""
    @property
    def servers(self) -> list[PoolServer]:
        """Every server that may be connected to."""
    @property
    def last_error(self) -> Exception | None:
        """The last error that no call waited for."""
    @property
    def stats(self) -> dict[str, int]:
        """Counts so far: in_msgs, out_msgs, in_bytes and out_bytes (payloads only), reconnects, errors_received."""
    def troubles(self) -> tuple[int, int]:
        """Messages that were published once more, and those that subscriptions dropped."""

    def moved(self) -> dict[str, dict[str, int]]:
        """What each verb has moved so far, by its name: in_msgs, out_msgs, in_bytes, out_bytes, resent."""

    def flying(self) -> tuple[int, int]:
        """Messages of `publish_batch` that are not acknowledged yet, and their bytes."""

    def ack_latency(self) -> tuple[list[tuple[float, int]], int, float]:
        """What acks took: (most seconds, how many), how many took longer than the last, and the seconds of all."""

    def force_reconnect(self) -> Call[None]:
        """Drop the link and connect anew, to another server where there are several."""
    def set_server_pool(self, servers: Sequence[str]) -> None:
        """Put another list of servers in the place of the present one, for the next reconnect.

        Args:
            servers: Addresses.

        Raises:
            BadAddressError: One is not an address, or has another transport than the connection.
        """
