"""Reading a key."""

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

        In a cluster any replica answers, unless the bucket has `direct=False`: a value that was put just before may
        not be there yet.

        Args:
            key: The key.
            revision: This revision of it, instead of the last one.
            validate_keys: False takes keys with other characters.

        Raises:
            KeyNotFoundError: No such key, or revision; or its last revision is a marker, which is then in `entry`, and
                its operation in `op`.
            InvalidKeyError: It is no key.
            BucketNotFoundError: The bucket is gone.
            TimeoutError: No answer in time.
        """
        if validate_keys:
            check_key(key)
        try:
            return await self._get(key, whole("revision", revision))
        except KeyDeletedError as error:
            raise KeyNotFoundError(error.entry, error.op) from None

    async def _get(self, key: str, revision: int | None = None, *, leader: bool = False) -> Entry:
        """An entry. Raises `KeyDeletedError` with that of a marker."""
        subject = self._pre + key
        entry = None if leader or not self._direct else await self._get_from_any_replica(subject, revision)
        if entry is None:
            entry = await self._get_from_leader(subject, revision)
        if entry.key != key:
            raise KeyNotFoundError(message=f"revision {revision} is that of {entry.key!r}, not of {key!r}")
        if entry.operation is not None:
            raise KeyDeletedError(entry, entry.operation)
        return entry

    async def _get_from_any_replica(self, subject: str, revision: int | None) -> Entry | None:
        """An entry by direct get, from any replica; None where none answers, so that the leader has to say why."""
        api = self._js._api
        session, native = api.session, api.session.native
        where, query = f"{api.prefix}.DIRECT.GET.{self._stream}", b""
        if revision:
            query = json.dumps({"seq": revision}).encode()
        else:
            # In the request's subject, so that permissions can be given for it.
            where = f"{where}.{subject}"
        loop, bridge, future = session.loop(), session.bridge(), None
        try:
            if loop is None or bridge is None:
                found = await session.run(native.get_entry(self._entries, where, query, api.timeout))
            else:
                future = native.get_entry_future(loop, bridge, self._entries, where, query, api.timeout)
                bridge.linger()
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
        raise APIError.build({"code": found or None}, message=f"{where} failed")

    async def _get_from_leader(self, subject: str, revision: int | None) -> Entry:
        try:
            msg = await self._js.get_msg(self._stream, seq=revision or None, subject=None if revision else subject)
        except NotFoundError as error:
            self._raise_missing(error)
        found = (msg.subject or "").removeprefix(self._pre)
        return Entry(self._name, found, msg.data or b"", msg.seq, 0, msg.time, operation_of(msg.headers))
