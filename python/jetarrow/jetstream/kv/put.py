"""Writing of keys."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import timedelta

from jetarrow._jetarrow import key_subjects
from jetarrow.core.arguments import whole
from jetarrow.jetstream.arrow import ArrowProducer
from jetarrow.jetstream.errors import (
    APIError,
    InvalidKeyError,
    KeyDeletedError,
    KeyNotFoundError,
    KeyWrongLastSequenceError,
)
from jetarrow.jetstream.kv.get import Get
from jetarrow.jetstream.kv.names import KV_DEL, KV_OP, KV_PURGE, MSG_ROLLUP_SUBJECT, check_key
from jetarrow.jetstream.models import Header
from jetarrow.jetstream.progress import Progress
from jetarrow.jetstream.publish_result import PublishResult
from jetarrow.jetstream.server_features import require_version

# err_codes of a mismatched `Nats-Expected-Last-Subject-Sequence`, with and without the sequence in the text.
WRONG_LAST_SEQUENCE = (10071, 10164)
# Attempts of `create` if markers change concurrently.
ATTEMPTS = 3


class Put(Get):
    """The verbs that write keys."""

    async def put(self, key: str, value: bytes | str, validate_keys: bool = True) -> int:
        """Stores a value, whether or not the key exists.

        Args:
            key: The key.
            value: Bytes-like, or str, which is stored as UTF-8.
            validate_keys: Whether keys with other characters are rejected.

        Returns:
            Its revision.

        Raises:
            InvalidKeyError: The key is not valid.
            NoStreamResponseError: The bucket does not exist.
            APIError: The bucket is full, or the value is too large for it.
            MaxPayloadError: The value is larger than the server's maximum payload; nothing was sent.
            TimeoutError: The server did not respond in time: the value may or may not be stored.
        """
        if validate_keys:
            check_key(key)
        return (await self._js.publish(self._put_pre + key, value)).seq

    async def create(
        self,
        key: str,
        value: bytes | str,
        validate_keys: bool = True,
        msg_ttl: float | timedelta | None = None,
    ) -> int:
        """Stores a value if the key has none: it has no revisions, or the last one is a marker.

        Args:
            key: The key.
            value: As `put`.
            validate_keys: As `put`.
            msg_ttl: Seconds until the value is removed, at least 1.

        Returns:
            Its revision.

        Raises:
            KeyWrongLastSequenceError: The key has a value.
            InvalidKeyError: The key is not valid.
            APIError: As `put`, or `msg_ttl` is not allowed in this bucket.
            UnsupportedError: `msg_ttl` is given, and the server is older than 2.11.
        """
        if validate_keys:
            check_key(key)
        last = 0
        for _ in range(ATTEMPTS):
            try:
                return await self._publish_revision(key, value, last=last, msg_ttl=msg_ttl)
            except KeyWrongLastSequenceError as error:
                refused = error
            try:
                # Read from the leader, which made the comparison.
                await self._get(key, leader=True)
            except KeyDeletedError as marker:
                last = marker.entry.revision
            except KeyNotFoundError:
                last = 0
            else:
                break
        raise refused

    async def update(
        self,
        key: str,
        value: bytes | str,
        last: int | None = None,
        validate_keys: bool = True,
        msg_ttl: float | timedelta | None = None,
    ) -> int:
        """Stores a value if the key's last revision is `last`.

        Args:
            key: The key.
            value: As `put`.
            last: The expected last revision, which may be a marker; None or 0 expects a key without revisions.
            validate_keys: As `put`.
            msg_ttl: Seconds until the value is removed, at least 1.

        Returns:
            Its revision.

        Raises:
            KeyWrongLastSequenceError: The key has another last revision.
            InvalidKeyError: The key is not valid.
            APIError: As `put`, or `msg_ttl` is not allowed in this bucket.
            UnsupportedError: `msg_ttl` is given, and the server is older than 2.11.
        """
        if validate_keys:
            check_key(key)
        return await self._publish_revision(key, value, last=last or 0, msg_ttl=msg_ttl)

    async def delete(
        self,
        key: str,
        last: int | None = None,
        validate_keys: bool = True,
        msg_ttl: float | None = None,
    ) -> bool:
        """Deletes a key by a marker after its values; its history is kept.

        Args:
            key: The key.
            last: Delete only if this is its last revision; None or 0 deletes unconditionally.
            validate_keys: As `put`.
            msg_ttl: No effect; for compatibility with nats-py, where it is deprecated too.

        Returns:
            True.

        Raises:
            KeyWrongLastSequenceError: The key has another last revision.
            InvalidKeyError: The key is not valid.
            APIError: As `put`.
        """
        if msg_ttl is not None:
            warnings.warn(
                "delete(msg_ttl=) is deprecated and has no effect; use create or purge",
                DeprecationWarning,
                stacklevel=2,
            )
        if validate_keys:
            check_key(key)
        await self._publish_revision(key, b"", last=last or None, headers={KV_OP: KV_DEL})
        return True

    async def purge(
        self,
        key: str,
        msg_ttl: float | timedelta | None = None,
        *,
        last: int | None = None,
        validate_keys: bool = True,
    ) -> bool:
        """Deletes a key by a marker that replaces its values and history.

        Args:
            key: The key.
            msg_ttl: Seconds until the marker is removed too, at least 1.
            last: Purge only if this is its last revision; None or 0 purges unconditionally.
            validate_keys: As `put`.

        Returns:
            True.

        Raises:
            KeyWrongLastSequenceError: The key has another last revision.
            InvalidKeyError: The key is not valid.
            APIError: As `put`, or `msg_ttl` is not allowed in this bucket.
            UnsupportedError: `msg_ttl` is given, and the server is older than 2.11.
        """
        if validate_keys:
            check_key(key)
        headers = {KV_OP: KV_PURGE, Header.ROLLUP.value: MSG_ROLLUP_SUBJECT}
        await self._publish_revision(key, b"", last=last or None, headers=headers, msg_ttl=msg_ttl)
        return True

    async def _publish_revision(
        self,
        key: str,
        value: bytes | str,
        *,
        last: int | None,
        headers: dict[str, str] | None = None,
        msg_ttl: float | timedelta | None = None,
    ) -> int:
        if msg_ttl is not None:
            require_version(self._js._api, "msg_ttl", (2, 11))
        whole("last", last)
        try:
            ack = await self._js.publish(
                self._put_pre + key, value, headers=headers, msg_ttl=msg_ttl, expected_last_subject_seq=last
            )
        except APIError as error:
            if error.err_code not in WRONG_LAST_SEQUENCE:
                raise
            raise KeyWrongLastSequenceError(error.description) from None
        return ack.seq

    async def put_batch(
        self,
        keys: Sequence[str] | ArrowProducer,
        values: Sequence[bytes | bytearray | memoryview | str] | ArrowProducer,
        *,
        validate_keys: bool = True,
        max_inflight: int | None = None,
        max_bytes: int = 64 * 1024 * 1024,
        timeout: float = 30.0,
        progress: Progress | bool | None = None,
    ) -> PublishResult:
        """Stores many values with many in flight, and returns the result of each.

        Args:
            keys: A sequence of str, or an Arrow string column.
            values: A sequence of bytes-like or str, or an Arrow binary or string column, of the same length.
            validate_keys: Whether keys with other characters are rejected.
            max_inflight: Maximum number of values in flight; None as for `publish_batch`.
            max_bytes: Maximum size of the values in flight in bytes; default 64 MiB.
            timeout: Seconds until a value without an ack fails.
            progress: As `js.publish_batch`.

        Returns:
            The result of each value: its revision in `seqs`, or its error in `errors`; call `raise_for_errors()` if
            every value must be stored.

        Raises:
            InvalidKeyError: A key is not valid; nothing was sent.
            TypeError: An argument has a wrong type; nothing was sent.
            ValueError: The numbers of keys and values differ; nothing was sent.
            MaxPayloadError: A value is larger than the server's maximum payload; nothing was sent.
        """
        subjects = key_subjects(self._put_pre, keys, validate_keys)
        if subjects.invalid is not None:
            raise InvalidKeyError(
                f"invalid key keys[{subjects.invalid}]: use letters, digits and - / _ = . only, no dot at an end,"
                " no two dots in a row"
            )
        return await self._js.publish_batch(
            subjects,
            values,
            max_inflight=max_inflight,
            max_bytes=max_bytes,
            timeout=timeout,
            progress=progress,
        )
