"""A key-value bucket."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from jetarrow._jetarrow import Entries
from jetarrow.jetstream import models
from jetarrow.jetstream.errors import NotFoundError
from jetarrow.jetstream.kv.bucket import BucketContext
from jetarrow.jetstream.kv.entry import Entry as _Entry
from jetarrow.jetstream.kv.keys import Keys
from jetarrow.jetstream.kv.put import Put
from jetarrow.jetstream.kv.table import Tables
from jetarrow.jetstream.kv.watcher import KeyWatcher as _KeyWatcher


@dataclass(frozen=True)
class BucketStatus:
    """State and configuration of a bucket. Public as `KeyValue.BucketStatus`.

    Attributes:
        stream_info: State and configuration of the bucket's stream.
        bucket: The bucket's name.
    """

    stream_info: models.StreamInfo
    bucket: str

    @property
    def values(self) -> int:
        """Number of stored revisions, including markers."""
        return self.stream_info.state.messages

    @property
    def history(self) -> int:
        """Maximum number of revisions kept of each key."""
        return self.stream_info.config.max_msgs_per_subject

    @property
    def ttl(self) -> float | None:
        """Maximum age of a value in seconds; 0 or None is unlimited."""
        return self.stream_info.config.max_age

    @property
    def marker_ttl(self) -> float | None:
        """Maximum age in seconds of the marker of an expired key; None disables these markers."""
        return self.stream_info.config.subject_delete_marker_ttl


# Within `KeyValue` the name is an attribute.
_BucketStatus = BucketStatus


class KeyValue(Put, Keys, Tables):
    """A bucket of keys and their values. Created by `js.key_value(bucket)` or `js.create_key_value(bucket=...)`.

    A handle holds no resources, and tasks may share it. Keys consist of letters, digits and `- / _ = .`. Dots separate
    tokens, which filters match as in subjects: `orders.*`, `orders.>`.
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
        """Returns state and configuration of the bucket.

        Raises:
            BucketNotFoundError: The bucket does not exist.
        """
        try:
            return BucketStatus(await self._js.stream_info(self._stream), self._name)
        except NotFoundError as error:
            self._raise_missing(error)
            raise
