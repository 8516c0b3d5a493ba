"""Reading a key."""

from __future__ import annotations

import json

from jetarrow._jetarrow import Msg
from jetarrow.core.errors import NoRespondersError
from jetarrow.jetstream.errors import APIError, KeyDeletedError, KeyNotFoundError, NotFoundError
from jetarrow.jetstream.kv.base import Bucket
from jetarrow.jetstream.kv.entry import Entry, operation_of
from jetarrow.jetstream.kv.names import check_key
from jetarrow.jetstream.models import Header
from jetarrow.jetstream.models.values import from_rfc3339

# As plain strings: a message's headers are looked up with them.
_SEQUENCE, _SUBJECT, _TIME = Header.SEQUENCE.value, Header.SUBJECT.value, Header.TIME_STAMP.value
_STATUS, _DESCRIPTION = Header.STATUS.value, Header.DESCRIPTION.value


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
            return await self._get(key, revision)
        except KeyDeletedError as error:
            raise KeyNotFoundError(error.entry, error.op) from None

    async def _get(self, key: str, revision: int | None = None, *, leader: bool = False) -> Entry:
        """An entry. Raises `KeyDeletedError` with that of a marker."""
        subject = self._pre + key
        answer = None if leader or not self._direct else await self._ask_any(subject, revision)
        if answer is None:
            entry = await self._ask_leader(key, subject, revision)
        else:
            headers = answer.headers or {}
            self._check_subject(headers[_SUBJECT], subject, revision)
            sequence, created = int(headers[_SEQUENCE]), from_rfc3339(headers[_TIME])
            entry = Entry(self._name, key, answer.data, sequence, 0, created, operation_of(headers))
        if entry.operation is not None:
            raise KeyDeletedError(entry, entry.operation)
        return entry

    async def _ask_any(self, subject: str, revision: int | None) -> Msg | None:
        """A message by direct get, from any replica; None where none answers, so that the leader has to say why."""
        api = self._js._api
        verb, query = f"DIRECT.GET.{self._stream}", b""
        if revision:
            query = json.dumps({"seq": revision}).encode()
        else:
            # In the request's subject, so that permissions can be given for it.
            verb = f"{verb}.{subject}"
        try:
            answer = await api.session.request(f"{api.prefix}.{verb}", query, api.timeout, None)
        except NoRespondersError:
            return None
        headers = answer.headers or {}
        if _SEQUENCE not in headers:
            # Only a stored message has a sequence.
            status = headers.get(_STATUS, "")
            if status == "404":
                raise KeyNotFoundError
            code = int(status) if status.isdecimal() else None
            raise APIError.build({"code": code, "description": headers.get(_DESCRIPTION)}, message=f"{verb} failed")
        return answer

    async def _ask_leader(self, key: str, subject: str, revision: int | None) -> Entry:
        try:
            msg = await self._js.get_msg(self._stream, seq=revision or None, subject=None if revision else subject)
        except NotFoundError as error:
            self._raise_missing(error)
        self._check_subject(msg.subject, subject, revision)
        return Entry(self._name, key, msg.data or b"", msg.seq, 0, msg.time, operation_of(msg.headers))

    def _check_subject(self, found: str | None, subject: str, revision: int | None) -> None:
        if found != subject:
            raise KeyNotFoundError(message=f"revision {revision} is that of {found!r}, not of {subject!r}")
