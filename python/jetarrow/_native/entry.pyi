"""Entries of a key-value bucket."""

import asyncio
from typing import Any, final

from jetarrow._native.bridge import Bridge
from jetarrow._native.call import Call

@final
class Entries:
    """How the entries of a key-value bucket are made.

    Args:
        class_: Their class.
        bucket: Their bucket.
        hidden: How many bytes of a subject come before the key.
    """

    def __new__(cls, class_: type, bucket: str, hidden: int) -> Entries: ...

class EntryVerbs:
    """Of a `Connection`."""

    def get_entry(self, entries: Entries, subject: str, payload: bytes, timeout: float | None) -> Call[Any]:
        """Make one direct get.

        Args:
            entries: How the entry is made.
            subject: The request's subject.
            payload: Its payload.
            timeout: Most seconds.

        Returns:
            A call for the entry, or for the number of the status that came in its place.
        """
    def get_entry_future(
        self,
        event_loop: asyncio.AbstractEventLoop,
        bridge: Bridge,
        entries: Entries,
        subject: str,
        payload: bytes,
        timeout: float | None,
    ) -> asyncio.Future[Any]:
        """Make one direct get, as a future of the loop; see `request_future`."""
