"""Removal of chunks that no object refers to."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from jetarrow.core.errors import TimeoutError
from jetarrow.jetstream import models
from jetarrow.jetstream.errors import BadObjectMetaError, NotFoundError
from jetarrow.jetstream.models.values import to_seconds
from jetarrow.jetstream.objects.bucket import parse_info
from jetarrow.jetstream.objects.metadata_checks import is_nuid
from jetarrow.jetstream.objects.names import OBJ_ALL_CHUNKS_PRE_TEMPLATE, chunk_subject
from jetarrow.jetstream.objects.status import OrphanedChunks
from jetarrow.jetstream.objects.watch import Watch, end, initial_messages

# Default age: far longer than the pause of a put between two chunks, and than a reconnect.
OLDER_THAN = timedelta(hours=1)
# Seconds to wait for the size of the next chunk, because another client may have purged it in the meantime.
SIZE_WAIT = 5.0


class Clean(Watch):
    """The verb `clean`."""

    async def clean(self, older_than: float | timedelta = OLDER_THAN, *, dry_run: bool = False) -> list[OrphanedChunks]:
        """Removes chunks that no object refers to, such as those of a put whose process was killed.

        Args:
            older_than: Minimum age in seconds, or a timedelta, of the newest chunk of a nuid by the server's clock.
                Younger chunks are kept, because their put may still be running. Choose more than the longest pause of a
                put between two chunks, and before its end.
            dry_run: Only list the chunks.

        Returns:
            The chunks that were removed, or would be, one entry per nuid, oldest first.

        Raises:
            BucketNotFoundError: The bucket was deleted.
            APIError: The bucket is sealed.
            ValueError: `older_than` is negative.
        """
        age = to_seconds(older_than, "older_than")
        if age < 0:
            raise ValueError(f"older_than must be 0 or more seconds, not {age}")
        try:
            return await self._clean(timedelta(seconds=age), dry_run)
        except NotFoundError as error:
            raise self._bucket_not_found(error) from None

    async def _clean(self, age: timedelta, dry_run: bool) -> list[OrphanedChunks]:
        everything = OBJ_ALL_CHUNKS_PRE_TEMPLATE.format(bucket=self._name)
        # Chunks are listed before metadata, so an object committed after the list is among the metadata.
        info = await self._js.stream_info(self._stream, everything)
        prefix = everything.removesuffix(">")
        counts = {subject.removeprefix(prefix): count for subject, count in (info.state.subjects or {}).items()}
        orphans = {nuid for nuid in counts if is_nuid(nuid)}
        orphans -= (await self._referenced(orphans))[0]
        before = (info.ts or datetime.now(UTC)) - age
        newest: dict[str, datetime] = {}
        for nuid in orphans:
            with suppress(NotFoundError):
                stored = (await self._js.get_last_msg(self._stream, chunk_subject(self._name, nuid))).time
                if stored is not None and stored <= before:
                    newest[nuid] = stored
        if not newest:
            return []
        # Checked again right before the purge, because a paused put may have completed.
        referenced, names = await self._referenced(newest)
        found = []
        for nuid in sorted(newest.keys() - referenced, key=newest.__getitem__):
            size = await self._size_of(nuid)
            found.append(OrphanedChunks(nuid, names.get(nuid), counts[nuid], size, newest[nuid]))
            if not dry_run:
                await self._purge(nuid)
        return found

    async def _referenced(self, nuids: Collection[str]) -> tuple[set[str], dict[str, str]]:
        """Return the nuids that an object refers to, and the names of deleted objects by nuid."""
        referenced: set[str] = set()
        deleted: dict[str, str] = {}
        for subject, (text, stored) in (await self._all_metas()).items():
            try:
                info = parse_info(text, stored, self._name, subject)
            except BadObjectMetaError:
                # A newer client may be able to parse it.
                referenced.update(nuid for nuid in nuids if nuid.encode() in text)
                continue
            if info.deleted:
                deleted[info.nuid] = info.name
            else:
                referenced.add(info.nuid)
        return referenced, deleted

    async def _size_of(self, nuid: str) -> int:
        """Return the payload bytes of a nuid's chunks, from headers only."""
        size = 0
        sub = await self._js.subscribe(
            chunk_subject(self._name, nuid), stream=self._stream, ordered_consumer=True, headers_only=True
        )
        try:
            left = await initial_messages(sub)
            with suppress(TimeoutError):
                while left:
                    msg = await sub.next_msg(SIZE_WAIT)
                    size += int((msg.headers or {}).get(models.Header.MSG_SIZE.value, 0))
                    left = min(left - 1, msg.metadata.num_pending)
        finally:
            await end(sub)
        return size
