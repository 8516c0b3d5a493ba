"""A key-value bucket."""

from __future__ import annotations

from datetime import datetime

from jetarrow._jetarrow import Entries
from jetarrow.jetstream.errors import NotFoundError
from jetarrow.jetstream.kv.base import BucketContext
from jetarrow.jetstream.kv.entry import Entry as _Entry
from jetarrow.jetstream.kv.keys import Keys
from jetarrow.jetstream.kv.put import Put
from jetarrow.jetstream.kv.status import BucketStatus as _BucketStatus
from jetarrow.jetstream.kv.table import Tables
from jetarrow.jetstream.kv.watcher import KeyWatcher as _KeyWatcher


class KeyValue(Put, Keys, Tables):
    """A bucket of keys and their values. Made by `js.key_value(bucket)` or `js.create_key_value(bucket=...)`.

    A handle costs nothing to hold, and tasks may share it. Keys have letters, digits and `- / _ = .`; dots separate
    tokens, which filters match as subjects do: `orders.*`, `orders.>`.
    """

    Entry = _Entry
    BucketStatus = _BucketStatus
    KeyWatcher = _KeyWatcher

    def __init__(
        self,
        name: str,
        stream: str,
        pre: str,
        js: BucketContext,
        direct: bool,
        *,
        put_pre: str | None = None,
        created: datetime | None = None,
    ) -> None:
        self._name = name
        self._stream = stream
        self._pre = pre
        self._put_pre = put_pre or pre
        self._js = js
        self._direct = direct
        self._entries = Entries(_Entry, name, len(pre.encode()))
        self._created = created

    def __repr__(self) -> str:
        return f"<KeyValue: bucket {self._name!r}>"

    async def status(self) -> _BucketStatus:
        """State and configuration of the bucket.

        Raises:
            BucketNotFoundError: The bucket is gone.
        """
        try:
            return _BucketStatus(await self._js.stream_info(self._stream), self._name)
        except NotFoundError as error:
            self._raise_missing(error)
            raise
