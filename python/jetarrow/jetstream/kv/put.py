"""Writing of keys."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from datetime import timedelta

from jetarrow._jetarrow import key_subjects
from jetarrow.core.arguments import whole
from jetarrow.core.docstrings import with_entries_of
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
from jetarrow.jetstream.publish import PublishVerbs
from jetarrow.jetstream.publish_result import PublishResult
from jetarrow.jetstream.server_features import require_version

# err_codes of a mismatched `Nats-Expected-Last-Subject-Sequence`, with and without the sequence in the text.
WRONG_LAST_SEQUENCE = (10071, 10164)
# The last sequence in the server's description of such an error.
_SEQUENCE = re.compile(r"wrong last sequence: (\d+)")
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
        try:
            return (await self._js.publish(self._put_pre + key, value)).seq
        except APIError as error:
            raise self._rejected(error, "put", key) from None

    @with_entries_of(put)
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
                return await self._publish_revision(key, value, last=last, msg_ttl=msg_ttl, operation="create")
            except KeyWrongLastSequenceError as error:
                refused = error
            try:
                # Read from the leader, which made the comparison.
                refused = self._exists(refused, (await self._get(key, leader=True)).revision or 0)
            except KeyDeletedError as marker:
                last = marker.entry.revision
            except KeyNotFoundError:
                last = 0
            else:
                break
        raise refused

    @with_entries_of(put)
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
        return await self._publish_revision(key, value, last=last or 0, msg_ttl=msg_ttl, operation="update")

    @with_entries_of(put)
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
        await self._publish_revision(key, b"", last=last or None, headers={KV_OP: KV_DEL}, operation="delete")
        return True

    @with_entries_of(put)
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
        await self._publish_revision(key, b"", last=last or None, headers=headers, msg_ttl=msg_ttl, operation="purge")
        return True

    async def _publish_revision(
        self,
        key: str,
        value: bytes | str,
        *,
        last: int | None,
        operation: str,
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
                raise self._rejected(error, operation, key) from None
            raise self._wrong_revision(error, operation, key, last or 0) from None
        return ack.seq

    def _rejected(self, error: APIError, operation: str, key: str) -> APIError:
        """The error of a rejected write, with the names of key and bucket."""
        error._set_message(f"could not {operation} key {key!r} in bucket {self._name!r}")
        return error

    def _wrong_revision(self, error: APIError, operation: str, key: str, last: int) -> KeyWrongLastSequenceError:
        """The error of a key whose last revision is not `last`."""
        found = _SEQUENCE.search(error.description or "")
        revision = None if found is None else int(found[1])
        state = {None: "it has another revision", 0: "it has no revision"}.get(revision, f"its revision is {revision}")
        expected = f"{last} was expected" if last else "no revision was expected"
        return KeyWrongLastSequenceError(
            error.description,
            message=f"could not {operation} key {key!r} in bucket {self._name!r}: {state}, {expected}"
            f" (err_code={error.err_code} description={error.description!r}); read it again, then retry",
            err_code=error.err_code or WRONG_LAST_SEQUENCE[0],
            bucket=self._name,
            key=key,
            revision=revision,
        )

    def _exists(self, error: KeyWrongLastSequenceError, revision: int) -> KeyWrongLastSequenceError:
        """The error of a key that was to be created and has a value."""
        return KeyWrongLastSequenceError(
            error.description,
            message=f"could not create key {error.key!r} in bucket {self._name!r}: it exists at revision {revision}"
            f" (err_code={error.err_code} description={error.description!r}); use update() or put()",
            err_code=error.err_code or WRONG_LAST_SEQUENCE[0],
            bucket=self._name,
            key=error.key,
            revision=revision,
        )

    @with_entries_of(PublishVerbs.publish_batch)
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
