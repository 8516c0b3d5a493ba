"""Reading of a key."""

from __future__ import annotations

import asyncio
import json

from jetarrow.core.arguments import whole
from jetarrow.core.errors import NoRespondersError
from jetarrow.jetstream.errors import APIError, KeyDeletedError, KeyNotFoundError, NotFoundError
from jetarrow.jetstream.kv.bucket import Bucket
from jetarrow.jetstream.kv.entry import Entry, operation_of
from jetarrow.jetstream.kv.names import check_key


class Get(Bucket):
    """The verb `get`."""

    async def get(self, key: str, revision: int | None = None, validate_keys: bool = True) -> Entry:
        """Reads a key.

        In a cluster any replica answers, unless the bucket has `direct=False`, so the result may be older than a
        preceding put.

        Args:
            key: The key.
            revision: The revision to read. Default: the last one.
            validate_keys: Whether keys with other characters are rejected.

        Raises:
            KeyNotFoundError: Key or revision does not exist; or it is a marker, which is then in `entry`, with its
                operation in `op`.
            InvalidKeyError: The key is not valid.
            BucketNotFoundError: The bucket does not exist.
            TimeoutError: The server did not respond in time.
        """
        if validate_keys:
            check_key(key)
        try:
            return await self._get(key, whole("revision", revision))
        except KeyDeletedError as error:
            text = f"{error.message}; history() still has its marker, and earlier values if the bucket keeps them"
            raise KeyNotFoundError(error.entry, error.op, text) from None

    async def _get(self, key: str, revision: int | None = None, *, leader: bool = False) -> Entry:
        """Return an entry; raise `KeyDeletedError` with the entry of a marker."""
        subject = self._pre + key
        try:
            entry = None if leader or not self._direct else await self._get_from_any_replica(subject, revision)
            if entry is None:
                entry = await self._get_from_leader(subject, revision)
        except KeyNotFoundError:
            text = f"key {key!r}" if not revision else f"revision {revision} of key {key!r}"
            raise KeyNotFoundError(message=f"bucket {self._name!r} has no {text}") from None
        if entry.key != key:
            raise KeyNotFoundError(
                message=f"key {key!r} of bucket {self._name!r} has no revision {revision}: it is a revision of key"
                f" {entry.key!r}"
            )
        if (operation := entry.operation) is not None:
            text = f"key {key!r} of bucket {self._name!r} was deleted ({operation} at revision {entry.revision})"
            raise KeyDeletedError(entry, operation, message=text)
        return entry

    async def _get_from_any_replica(self, subject: str, revision: int | None) -> Entry | None:
        """Return an entry by direct get from any replica; None if no replica responds, so that the leader is asked."""
        api = self._js._api
        session, native = api.session, api.session.native
        where, query = f"{api.prefix}.DIRECT.GET.{self._stream}", b""
        if revision:
            query = json.dumps({"seq": revision}).encode()
        else:
            # The key is part of the request's subject, so that permissions can be granted for it.
            where = f"{where}.{subject}"
        loop, bridge, future = session.loop(), session.bridge(), None
        try:
            if loop is None or bridge is None:
                found = await session.run(native.get_entry(self._entries, where, query, api.timeout))
            else:
                future = native.get_entry_future(loop, bridge, self._entries, where, query, api.timeout)
                found = await future
        except NoRespondersError:
            return None
        except asyncio.CancelledError:
            if future is not None:
                native.cancel_request(future)
            raise
        if isinstance(found, Entry):
            return found
        if found == 404:
            raise KeyNotFoundError
        raise APIError.build(
            {"code": found or None},
            message=f"could not read key {subject.removeprefix(self._pre)!r} of bucket {self._name!r}",
        )

    async def _get_from_leader(self, subject: str, revision: int | None) -> Entry:
        try:
            msg = await self._js.get_msg(self._stream, seq=revision or None, subject=None if revision else subject)
        except NotFoundError as error:
            self._raise_missing(error)
        found = (msg.subject or "").removeprefix(self._pre)
        return Entry(self._name, found, msg.data or b"", msg.seq, 0, msg.time, operation_of(msg.headers))
