"""Base class of the verbs of an object store: reading and writing of object metadata."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple, NoReturn, Self

from jetarrow import _jetarrow
from jetarrow.core.nuid import NUID
from jetarrow.jetstream import models, not_found
from jetarrow.jetstream.api import STREAM_NOT_FOUND
from jetarrow.jetstream.errors import (
    APIError,
    BadObjectMetaError,
    BucketNotFoundError,
    NotFoundError,
    ObjectNotFoundError,
)
from jetarrow.jetstream.models.values import to_rfc3339
from jetarrow.jetstream.objects.metadata_checks import checked_info, checked_nuid
from jetarrow.jetstream.objects.names import (
    OBJ_ALL_META_PRE_TEMPLATE,
    STREAM_PREFIX,
    bucket_stream,
    chunk_subject,
    meta_subject,
)
from jetarrow.jetstream.ordered import OrderedVerbs
from jetarrow.jetstream.publish import PublishVerbs
from jetarrow.jetstream.read import ReadVerbs
from jetarrow.jetstream.subscribe import Subscribe

# err_codes of a mismatched `Nats-Expected-Last-Subject-Sequence`, with and without the sequence in the text.
WRONG_LAST_SEQUENCE = (10071, 10164)
# Limits of a read: bytes of a batch, and bytes requested from the server and not received yet.
BATCH_BYTES = 1024 * 1024
FETCH_BYTES = 12 * 1024 * 1024
ROLLUP = {models.Header.ROLLUP.value: "sub"}

_nuid = NUID()


class StoreContext(PublishVerbs, Subscribe, OrderedVerbs, ReadVerbs):
    """The verbs of a context that an object store uses."""


class Stored(NamedTuple):
    """Metadata of an object, its sequence in the stream, and the bytes that were stored."""

    info: models.ObjectInfo
    seq: int
    text: bytes = b""


Change = Callable[[Stored | None], models.ObjectInfo]
Find = Callable[[str], Awaitable[Stored | None]]


class Bucket:
    """Name, stream and context of a bucket."""

    def __init__(self, name: str, stream: str, js: StoreContext) -> None:
        self._name = name
        self._stream = stream
        self._js = js

    def _other(self, bucket: str) -> Self:
        """Return another bucket of the same account, without a request."""
        return type(self)(bucket, bucket_stream(bucket), self._js)

    async def _find(self, name: str) -> Stored | None:
        """Return the metadata of an object, deleted or not; None if the bucket has none.

        The request goes to the stream's leader, because a follower may lag behind a preceding put.

        Raises:
            BadObjectMetaError: The metadata cannot be parsed, or is that of another name.
        """
        msg = await self._last_meta(name)
        return None if msg is None else self._stored(name, msg)

    async def _find_any(self, name: str) -> Stored | None:
        """Return the metadata for a caller that replaces it; metadata that cannot be parsed counts as a deleted object.

        The chunks of such an object are not purged, because their nuid is unknown.
        """
        msg = await self._last_meta(name)
        if msg is None:
            return None
        try:
            return self._stored(name, msg)
        except BadObjectMetaError:
            nothing = models.ObjectInfo(name=name, bucket=self._name, nuid="", deleted=True)
            return Stored(nothing, msg.seq or 0, msg.data or b"")

    def _stored(self, name: str, msg: models.RawStreamMsg) -> Stored:
        text = msg.data or b""
        return Stored(parse_info(text, msg.time, self._name, meta_subject(self._name, name)), msg.seq or 0, text)

    async def _last_meta(self, name: str) -> models.RawStreamMsg | None:
        try:
            return await self._js.get_last_msg(self._stream, meta_subject(self._name, name))
        except NotFoundError as error:
            if error.err_code == STREAM_NOT_FOUND:
                raise self._bucket_not_found(error) from None
            return None

    async def _commit(self, name: str, found: Stored | None, change: Change, find: Find | None = None) -> Stored | None:
        """Replace `found` with new metadata, guarded by `Nats-Expected-Last-Subject-Sequence`.

        If another client has written metadata first, `change` is called again with it, as read by `find`.

        Returns:
            The metadata that was replaced.
        """
        while True:
            info = change(found)
            try:
                await self._write(name, info, 0 if found is None else found.seq)
            except APIError as error:
                if error.err_code not in WRONG_LAST_SEQUENCE:
                    raise
                latest = await (find or self._find)(name)
                if latest is not None and latest.text == encode_info(info):
                    # Stored by the first attempt of a publish that was retried.
                    return found
                found = latest
            else:
                return found

    async def _write(self, name: str, info: models.ObjectInfo, expected: int) -> None:
        await self._js.publish(
            meta_subject(self._name, name),
            encode_info(info),
            stream=self._stream,
            headers=ROLLUP,
            expected_last_subject_seq=expected,
        )

    async def _purge(self, nuid: str) -> None:
        """Purge the chunks of one version."""
        subject = chunk_subject(self._name, checked_nuid(nuid, self._name))
        await self._js.purge_stream(self._stream, subject=subject)

    async def _remove_meta(self, name: str, seq: int) -> bool:
        """Remove the metadata of a name if it is still the message `seq`.

        The purge ends at the sequence, so it never removes metadata that another client has put in the meantime.
        """
        removed = await self._js.purge_stream(self._stream, subject=meta_subject(self._name, name), seq=seq + 1)
        return removed.purged > 0

    async def _with_server_time(self, info: models.ObjectInfo) -> models.ObjectInfo:
        """Return the metadata with the server's store time, unless it was replaced in the meantime."""
        stored = await self._find(info.name)
        return info if stored is None or stored.info.nuid != info.nuid else replace(info, mtime=stored.info.mtime)

    @asynccontextmanager
    async def _open_read(
        self, subject: str, columns: Sequence[str], limit: int | None = None
    ) -> AsyncIterator[_jetarrow.Reader]:
        """Open a read of the messages that a subject has now; at most `limit` of them."""
        reader = self._js.read(
            self._stream,
            subjects=subject,
            columns=columns,
            batch_bytes=BATCH_BYTES,
            fetch_bytes=FETCH_BYTES,
            limit=limit,
        )
        try:
            yield await reader._open()
        finally:
            await reader.close()

    async def _batches(self, reader: _jetarrow.Reader) -> AsyncGenerator[_jetarrow.Batch]:
        """Yield the messages of a read in order, in batches of at most 1 MiB."""
        session = self._js._api.session
        while (item := await session.run(reader.next())) is not None:
            # Losses are skipped: removed messages belong to other objects, or the digest does not match.
            if isinstance(item, _jetarrow.Batch):
                yield item

    async def _all_metas(self) -> dict[str, tuple[bytes, datetime]]:
        """Return payload and time of the metadata of every name, by subject, in the order of their sequences.

        Metadata that another client replaces during the read is after the end of the read. Subjects missing from the
        read are read one by one.
        """
        session = self._js._api.session
        everything = OBJ_ALL_META_PRE_TEMPLATE.format(bucket=self._name)
        found: dict[str, tuple[bytes, datetime]] = {}
        async with (
            self._open_read(everything, ("subject", "data", "reply")) as reader,
            aclosing(self._batches(reader)) as batches,
        ):
            end = reader.end
            async for batch in batches:
                for row in range(len(batch)):
                    msg = batch.message(session, row)
                    # Metadata that was replaced during the read appears twice; the last one counts.
                    found.pop(msg.subject, None)
                    found[msg.subject] = (msg.data, msg.metadata.timestamp)
        if (await self._js.stream_info(self._stream)).state.last_seq < end:
            return found
        state = (await self._js.stream_info(self._stream, everything)).state
        late = []
        for subject in (state.subjects or {}).keys() - found.keys():
            with suppress(NotFoundError):
                late.append(await self._js.get_last_msg(self._stream, subject))
        for stored in sorted(late, key=lambda stored: stored.seq or 0):
            if stored.subject is not None and stored.time is not None:
                found[stored.subject] = (stored.data or b"", stored.time)
        return found

    def _bucket_not_found(self, error: NotFoundError) -> BucketNotFoundError:
        return bucket_not_found(self._name, error)

    def _raise_object_not_found(self, name: str) -> NoReturn:
        raise ObjectNotFoundError(message=f"bucket {self._name!r} has no object {name!r}")


def bucket_not_found(bucket: str, error: NotFoundError) -> BucketNotFoundError:
    """Return the error for a bucket whose stream does not exist."""
    return not_found.bucket_not_found_error(error, bucket, STREAM_PREFIX)


def new_nuid() -> str:
    """Return the nuid of a new version, the last token of its chunks' subject."""
    return _nuid.next().decode()


def now() -> str:
    """Return the present time in the format of object metadata."""
    return to_rfc3339(datetime.now(UTC))


def parse_info(text: bytes, stored: datetime | None, bucket: str, subject: str) -> models.ObjectInfo:
    """Parse the metadata of an object; `mtime` is the store time of the message, not the writer's clock.

    Raises:
        BadObjectMetaError: The metadata cannot be parsed, a field is invalid, or the name is not that of the subject.
    """
    try:
        info = models.ObjectInfo.from_response(json.loads(text))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise BadObjectMetaError from error
    info = checked_info(info, bucket, subject)
    return info if stored is None else info.evolve(mtime=to_rfc3339(stored))


def encode_info(info: models.ObjectInfo) -> bytes:
    """Encode metadata in the format of all clients: header values are lists."""
    fields = info.as_dict()
    if info.headers is not None:
        fields["headers"] = {
            name: [str(value) for value in values] if isinstance(values, list | tuple) else [str(values)]
            for name, values in info.headers.items()
        }
    return json.dumps(fields).encode()
