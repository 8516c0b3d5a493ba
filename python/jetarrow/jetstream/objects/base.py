"""What the verbs of a bucket have in common: what is said about an object, read and written."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple, NoReturn, Self

from jetarrow import _jetarrow
from jetarrow.core.nuid import NUID
from jetarrow.jetstream import absent, models
from jetarrow.jetstream.api import STREAM_NOT_FOUND
from jetarrow.jetstream.errors import (
    APIError,
    BadObjectMetaError,
    BucketNotFoundError,
    NotFoundError,
    ObjectNotFoundError,
)
from jetarrow.jetstream.models.values import to_rfc3339
from jetarrow.jetstream.objects.names import STREAM_PREFIX, chunks_of, meta_of, stream_of
from jetarrow.jetstream.ordered import Order
from jetarrow.jetstream.publish import Publish
from jetarrow.jetstream.subscribe import Subscribe

# The server's words for an expected last sequence of a subject that is another one by now.
WRONG_LAST_SEQUENCE = (10071, 10164)
# Of a read: most bytes that are handed over at a time, and that are on their way.
BATCH_BYTES = 1024 * 1024
FETCH_BYTES = 12 * 1024 * 1024
ROLLUP = {models.Header.ROLLUP.value: "sub"}

_nuid = NUID()


class StoreContext(Publish, Subscribe, Order):
    """The verbs of a context that a bucket is made of."""


class Stored(NamedTuple):
    """What is said about an object, and its sequence in the stream."""

    info: models.ObjectInfo
    seq: int


Change = Callable[[Stored | None], models.ObjectInfo]


class Bucket:
    """A bucket's name, and where it is."""

    def __init__(self, name: str, stream: str, js: StoreContext) -> None:
        self._name = name
        self._stream = stream
        self._js = js

    def _other(self, bucket: str) -> Self:
        """Another bucket of the same account. No request is made."""
        return type(self)(bucket, stream_of(bucket), self._js)

    async def _find(self, name: str) -> Stored | None:
        """What is said about an object, deleted or not; None where nothing ever was.

        The stream's leader is asked: another replica may not know yet what was put just before.
        """
        try:
            msg = await self._js.get_last_msg(self._stream, meta_of(self._name, name))
        except NotFoundError as error:
            if error.err_code == STREAM_NOT_FOUND:
                raise self._gone(error) from None
            return None
        return Stored(info_of(msg.data or b"", msg.time), msg.seq or 0)

    async def _commit(self, name: str, found: Stored | None, change: Change) -> Stored | None:
        """Writes what is said about an object, in the place of what was found and of nothing else.

        Where another client was faster, `change` is asked again, with what that one wrote.

        Returns:
            What was there before.
        """
        while True:
            try:
                await self._write(name, change(found), 0 if found is None else found.seq)
            except APIError as error:
                if error.err_code not in WRONG_LAST_SEQUENCE:
                    raise
                found = await self._find(name)
            else:
                return found

    async def _write(self, name: str, info: models.ObjectInfo, expected: int) -> None:
        await self._js.publish(
            meta_of(self._name, name),
            text_of(info),
            stream=self._stream,
            headers=ROLLUP,
            expected_last_subject_seq=expected,
        )

    async def _purge(self, nuid: str) -> None:
        """Removes the chunks of one version."""
        await self._js.purge_stream(self._stream, subject=chunks_of(self._name, nuid))

    async def _dated(self, info: models.ObjectInfo) -> models.ObjectInfo:
        """The same with the time at which the server stored it, where it is still what it has."""
        stored = await self._find(info.name)
        return info if stored is None or stored.info.nuid != info.nuid else replace(info, mtime=stored.info.mtime)

    async def _batches(
        self, subject: str, columns: Sequence[str], limit: int | None = None
    ) -> AsyncGenerator[_jetarrow.Batch]:
        """What is stored under a subject now, in order, some megabytes at a time; at most `limit` messages."""
        session = self._js._api.session
        reader = self._js.read(
            self._stream,
            subjects=subject,
            columns=columns,
            batch_bytes=BATCH_BYTES,
            fetch_bytes=FETCH_BYTES,
            limit=limit,
        )
        try:
            native = await reader._open()
            while (item := await session.run(native.next())) is not None:
                # What retention or a purge takes meanwhile is another object's; or else the digest says so.
                if isinstance(item, _jetarrow.Batch):
                    yield item
        finally:
            await reader.close()

    def _gone(self, error: NotFoundError) -> BucketNotFoundError:
        return no_bucket(self._name, error)

    def _no_object(self, name: str) -> NoReturn:
        raise ObjectNotFoundError(message=f"bucket {self._name!r} has no object {name!r}")


def no_bucket(bucket: str, error: NotFoundError) -> BucketNotFoundError:
    """The error for a bucket whose stream is not there."""
    return absent.no_bucket(error, bucket, STREAM_PREFIX)


def new_version() -> str:
    """A name for the chunks of a new version."""
    return _nuid.next().decode()


def now() -> str:
    """This moment, as it is written in an object's information."""
    return to_rfc3339(datetime.now(UTC))


def info_of(text: bytes, stored: datetime | None) -> models.ObjectInfo:
    """An object's information as it was stored; its time is the message's, not what its writer's clock said.

    Raises:
        BadObjectMetaError: It cannot be read.
    """
    try:
        info = models.ObjectInfo.from_response(json.loads(text))
    except (ValueError, TypeError, AttributeError) as error:
        raise BadObjectMetaError from error
    return info if stored is None else info.evolve(mtime=to_rfc3339(stored))


def text_of(info: models.ObjectInfo) -> bytes:
    """An object's information as every client reads it: the values of a header are a list."""
    fields = info.as_dict()
    if info.headers is not None:
        fields["headers"] = {
            name: [str(value) for value in values] if isinstance(values, list | tuple) else [str(values)]
            for name, values in info.headers.items()
        }
    return json.dumps(fields).encode()
