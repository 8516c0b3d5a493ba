"""Lists: of keys, of a key's revisions, of markers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime

from jetarrow.core.arguments import seconds, text, texts
from jetarrow.jetstream.errors import NoKeysError
from jetarrow.jetstream.kv.entry import Entry
from jetarrow.jetstream.kv.names import is_literal
from jetarrow.jetstream.kv.watch import Watch
from jetarrow.jetstream.kv.watcher import KeyWatcher

# Seconds that the consumer of a list outlives its client.
INACTIVE = 30.0


async def _initial(watcher: KeyWatcher) -> AsyncIterator[Entry]:
    """What was there at the beginning."""
    async with watcher:
        while (entry := await watcher.updates(None)) is not None:
            yield entry


class Keys(Watch):
    """The verbs that list."""

    async def purge_deletes(self, olderthan: float = 30 * 60) -> bool:
        """Removes markers, and the values before them.

        Args:
            olderthan: Seconds: younger markers stay, so that those who watch see them; the values before them go all
                the same. 0 or less removes every marker.

        Returns:
            True.
        """
        seconds("olderthan", olderthan)
        watcher = await self.watchall(meta_only=True, inactive_threshold=INACTIVE)
        markers = [entry async for entry in _initial(watcher) if entry.operation is not None]
        for entry in markers:
            created, revision = entry.created, entry.revision
            if created is None or revision is None or not is_literal(entry.key):
                # A purge of a key `>`, which a client may publish to, would take the whole bucket.
                continue
            young = olderthan > 0 and (datetime.now(created.tzinfo) - created).total_seconds() < olderthan
            # Up to the marker and no further: the key may have a value again.
            await self._js.purge_stream(
                self._stream, subject=self._pre + entry.key, seq=revision if young else revision + 1
            )
        return True

    async def keys(self, filters: str | Sequence[str] | None = None) -> list[str]:
        """The keys that have a value, in the order of their last revisions.

        Args:
            filters: Only those that match one of these, such as `orders.*`; None is all.

        Raises:
            NoKeysError: There are none.
            InvalidKeyError: A filter that is none.
        """
        watcher = await self.watch(texts("filters", filters) or ">", meta_only=True, inactive_threshold=INACTIVE)
        found: dict[str, None] = {}
        async for entry in _initial(watcher):
            # A key that changes meanwhile comes again.
            found.pop(entry.key, None)
            if entry.operation is None:
                found[entry.key] = None
        if not found:
            raise NoKeysError
        return list(found)

    async def history(self, key: str) -> list[Entry]:
        """All revisions of a key that the bucket has kept, oldest first, markers too.

        Args:
            key: The key; a filter gives those of all that match.

        Raises:
            NoKeysError: There are none.
            InvalidKeyError: It is no key or filter.
        """
        watcher = await self.watch(text("key", key), include_history=True, inactive_threshold=INACTIVE)
        entries = [entry async for entry in _initial(watcher)]
        if not entries:
            raise NoKeysError
        return entries
