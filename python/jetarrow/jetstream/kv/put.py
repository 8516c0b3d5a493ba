"""Writing keys."""

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

# The subject has another last sequence: with the number in the server's words, and without.
WRONG_LAST_SEQUENCE = (10071, 10164)
# Attempts of `create` where markers come and go meanwhile.
ATTEMPTS = 3


class Put(Get):
    """The verbs that write."""

    async def put(self, key: str, value: bytes | str, validate_keys: bool = True) -> int:
        """Stores a value, whatever was there.

        Args:
            key: The key.
            value: Bytes-like, or str, which is stored as UTF-8.
            validate_keys: False takes keys with other characters.

        Returns:
            Its revision.

        Raises:
            InvalidKeyError: It is no key.
            NoStreamResponseError: The bucket is gone.
            APIError: The bucket refuses the value: it is full, or the value is too large.
            MaxPayloadError: Larger than the server takes; nothing was sent.
            TimeoutError: No answer in time: it may or may not be stored.
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
        """Stores a value if the key has none: it was never there, or its last revision is a marker.

        Args:
            key: The key.
            value: As `put`.
            validate_keys: As `put`.
            msg_ttl: Seconds until the value goes, at least 1.

        Returns:
            Its revision.

        Raises:
            KeyWrongLastSequenceError: The key has a value.
            InvalidKeyError: It is no key.
            APIError: As `put`; also `msg_ttl` in a bucket that does not allow it.
            UnsupportedError: `msg_ttl`, and the server is older than 2.11.
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
                # The leader knows what it has just compared with.
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
            last: The last revision that is expected, a marker's counts too; None or 0 is that there is none.
            validate_keys: As `put`.
            msg_ttl: Seconds until the value goes, at least 1.

        Returns:
            Its revision.

        Raises:
            KeyWrongLastSequenceError: The key has another last revision.
            InvalidKeyError: It is no key.
            APIError: As `put`; also `msg_ttl` in a bucket that does not allow it.
            UnsupportedError: `msg_ttl`, and the server is older than 2.11.
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
        """Puts a marker after the key's values: it is not there any more, its history is.

        Args:
            key: The key.
            last: Only if this is its last revision; None or 0 deletes whatever is there.
            validate_keys: As `put`.
            msg_ttl: For nats-py's sake, deprecated there too: it has no effect.

        Returns:
            True.

        Raises:
            KeyWrongLastSequenceError: The key has another last revision.
            InvalidKeyError: It is no key.
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
        """Puts a marker in the place of all of the key's values.

        Args:
            key: The key.
            msg_ttl: Seconds until the marker goes, too, at least 1.
            last: Only if this is its last revision; None or 0 purges whatever is there.
            validate_keys: As `put`.

        Returns:
            True.

        Raises:
            KeyWrongLastSequenceError: The key has another last revision.
            InvalidKeyError: It is no key.
            APIError: As `put`; also `msg_ttl` in a bucket that does not allow it.
            UnsupportedError: `msg_ttl`, and the server is older than 2.11.
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
        """Stores many values, many in flight at once, and returns what became of each.

        Args:
            keys: A sequence of str, or an Arrow string column.
            values: As many: a sequence of bytes-like or str, or an Arrow binary or string column.
            validate_keys: False takes keys with other characters.
            max_inflight: Most values that are unanswered at once; None as for `publish_batch`.
            max_bytes: Most bytes of them; default 64 MiB.
            timeout: Seconds a value may stay unanswered.
            progress: As `js.publish_batch`.

        Returns:
            The result of each: its revision in `seqs`, or its error in `errors`; call `raise_for_errors()` where none
            may fail.

        Raises:
            InvalidKeyError: One of them is no key; nothing was sent.
            TypeError: An argument is of a wrong type; nothing was sent.
            ValueError: Not as many values as keys; nothing was sent.
            MaxPayloadError: A value is larger than the server takes; nothing was sent.
        """
        subjects = key_subjects(self._put_pre, keys, validate_keys)
        if subjects.invalid is not None:
            raise InvalidKeyError(
                f"keys[{subjects.invalid}] is not a valid key: letters, digits and - / _ = . only, no dot at an end,"
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
