"""The keys of one bucket."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import cast

from ..jetstream.errors import JetStreamError
from .entries import KeyValueOp
from .errors import KeyExistsError
from .keys import (
    EXPECTED_LAST_SUBJECT_SEQUENCE,
    KV_DEL,
    KV_OP,
    KV_PURGE,
    MSG_ROLLUP,
    MSG_ROLLUP_SUBJECT,
    MSG_TTL,
    check_key,
    format_ttl,
)
from .reader import BucketReader

_WRONG_LAST_SEQUENCE = 10071


class KeyValue(BucketReader):
    """A bucket. `key_value` and the functions that create buckets return it."""

    async def put(self, key: str, value: bytes) -> int:
        """Store a value.

        Args:
            key: The key.
            value: The value.

        Returns:
            The revision.

        Raises:
            InvalidKeyError: The key is not valid.
        """
        check_key(key)
        return await self._publish(key, value, {}, None)

    async def create(self, key: str, value: bytes, *, ttl: timedelta | None = None) -> int:
        """Store a value if the key has none.

        Args:
            key: The key.
            value: The value.
            ttl: Age at which the value is removed, at least 1 s; the bucket needs `limit_marker_ttl`. Default: the
                bucket's.

        Returns:
            The revision.

        Raises:
            InvalidKeyError: The key is not valid.
            KeyExistsError: The key has a value.
        """
        check_key(key)
        headers = {MSG_TTL: format_ttl(ttl)} if ttl is not None else {}
        try:
            return await self._publish(key, value, headers, 0)
        except KeyExistsError:
            entry = await self._get(key)
        if entry.operation is KeyValueOp.PUT:
            raise KeyExistsError(key)
        return await self._publish(key, value, headers, entry.revision)

    async def update(self, key: str, value: bytes, revision: int) -> int:
        """Store a value if the key has the expected revision.

        Args:
            key: The key.
            value: The value.
            revision: The latest revision of the key; 0 if it has none.

        Returns:
            The new revision.

        Raises:
            InvalidKeyError: The key is not valid.
            KeyExistsError: The key has another revision.
        """
        check_key(key)
        return await self._publish(key, value, {}, revision)

    async def delete(self, key: str, *, last_revision: int | None = None) -> None:
        """Delete a key; earlier revisions remain in its history.

        Args:
            key: The key.
            last_revision: The latest revision of the key. Default: any.

        Raises:
            InvalidKeyError: The key is not valid.
            KeyExistsError: The key has another revision.
        """
        check_key(key)
        await self._publish(key, b"", {KV_OP: KV_DEL}, last_revision)

    async def purge(self, key: str, *, last_revision: int | None = None, ttl: timedelta | None = None) -> None:
        """Delete a key and its history.

        Args:
            key: The key.
            last_revision: The latest revision of the key. Default: any.
            ttl: Age at which the marker of the deletion is removed, at least 1 s; the bucket needs
                `limit_marker_ttl`. Default: never.

        Raises:
            InvalidKeyError: The key is not valid.
            KeyExistsError: The key has another revision.
        """
        check_key(key)
        headers = {KV_OP: KV_PURGE, MSG_ROLLUP: MSG_ROLLUP_SUBJECT}
        if ttl is not None:
            headers[MSG_TTL] = format_ttl(ttl)
        await self._publish(key, b"", headers, last_revision)

    async def _publish(self, key: str, value: bytes, headers: dict[str, str], revision: int | None) -> int:
        """Store a message for a key, and return its revision; `revision` is the expected latest one, or None."""
        if revision is not None:
            headers = {**headers, EXPECTED_LAST_SUBJECT_SEQUENCE: str(revision)}
        try:
            ack = await self._js.publish(f"{self._put_prefix}{key}", value, headers=headers or None)
        except JetStreamError as error:
            if error.error_code == _WRONG_LAST_SEQUENCE:
                raise KeyExistsError(key) from error
            raise
        # The acknowledgement of a stored message has it.
        return cast("int", ack.sequence)

    async def purge_deletes(self, *, older_than: timedelta = timedelta(minutes=30)) -> None:
        """Remove the markers of deleted keys, and the history of these keys.

        Args:
            older_than: Minimum age of a marker; of younger ones only the history is removed. With 0 or a negative
                duration all markers are removed. Default: 30 minutes.
        """
        consumer = await self._consumer([">"], "last_per_subject", headers_only=True)
        history = await self._history(consumer)
        deleted = [entry async for entry in history if entry.operation is not KeyValueOp.PUT]
        now = datetime.now(UTC)
        for entry in deleted:
            keeps_marker = older_than > timedelta() and now - entry.created < older_than
            # Up to the marker, so that a value that was stored meanwhile remains.
            sequence = entry.revision if keeps_marker else entry.revision + 1
            await self._stream.purge(filter=f"{self._prefix}{entry.key}", sequence=sequence)
