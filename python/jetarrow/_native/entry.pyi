"""Entries of a key-value bucket."""

import asyncio
from typing import Any, final

from jetarrow._native.bridge import Bridge
from jetarrow._native.call import Call

@final
class Entries:
    """Builder of the entries of a key-value bucket.

    Args:
        class_: The class of the entries.
        bucket: The name of the bucket.
        hidden: Bytes of a subject before the key.
    """

    def __new__(cls, class_: type, bucket: str, hidden: int) -> Entries: ...

class EntryVerbs:
    """Verbs of a `Connection`."""

    def get_entry(self, entries: Entries, subject: str, payload: bytes, timeout: float | None) -> Call[Any]:
        """Send a direct get.

        Args:
            entries: The builder of the entry.
            subject: The request's subject.
            payload: The request's payload.
            timeout: Maximum seconds.

        Returns:
            A call for the entry, or for the status code as a number if there is none.
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
        """Send a direct get, with a future of the loop; see `request_future`."""
