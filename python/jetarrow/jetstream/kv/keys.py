"""Lists of keys, of revisions of a key, and of markers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime

from jetarrow.core.arguments import seconds, text, texts
from jetarrow.jetstream.errors import NoKeysError
from jetarrow.jetstream.kv.entry import Entry
from jetarrow.jetstream.kv.names import is_literal
from jetarrow.jetstream.kv.watch import Watch
from jetarrow.jetstream.kv.watcher import KeyWatcher

# Inactive threshold in seconds of the consumer of a list.
INACTIVE = 30.0


async def _initial(watcher: KeyWatcher) -> AsyncIterator[Entry]:
    """Yield the initial values."""
    async with watcher:
        while (entry := await watcher.updates(None)) is not None:
            yield entry


class Keys(Watch):
    """The verbs that list keys, revisions and markers."""

    async def purge_deletes(self, olderthan: float = 30 * 60) -> bool:
        """Removes markers, and the values before them.

        Args:
            olderthan: Minimum age in seconds. Younger markers are kept, so that watchers receive them, but the values
                before them are removed. 0 or less removes every marker.

        Returns:
            True.
        """
        seconds("olderthan", olderthan)
        watcher = await self.watchall(meta_only=True, inactive_threshold=INACTIVE)
        markers = [entry async for entry in _initial(watcher) if entry.operation is not None]
        for entry in markers:
            created, revision = entry.created, entry.revision
            if created is None or revision is None or not is_literal(entry.key):
                # A purge of a key `>`, to which a client may publish, would remove the whole bucket.
                continue
            young = olderthan > 0 and (datetime.now(created.tzinfo) - created).total_seconds() < olderthan
            # Only up to the marker, because the key may have a new value.
            await self._js.purge_stream(
                self._stream, subject=self._pre + entry.key, seq=revision if young else revision + 1
            )
        return True

    async def keys(self, filters: str | Sequence[str] | None = None) -> list[str]:
        """Returns the keys that have a value, in the order of their last revisions.

        Args:
            filters: Only keys that match one of these, such as `orders.*`. Default: all.

        Raises:
            NoKeysError: No key matches.
            InvalidKeyError: A filter is not valid.
        """
        watcher = await self.watch(texts("filters", filters) or ">", meta_only=True, inactive_threshold=INACTIVE)
        found: dict[str, None] = {}
        async for entry in _initial(watcher):
            # A key that changes during the list appears again.
            found.pop(entry.key, None)
            if entry.operation is None:
                found[entry.key] = None
        if not found:
            raise NoKeysError
        return list(found)

    async def history(self, key: str) -> list[Entry]:
        """Returns the stored revisions of a key, including markers, oldest first.

        Args:
            key: The key, or a filter for the revisions of all matching keys.

        Raises:
            NoKeysError: The key has no revisions.
            InvalidKeyError: The key or filter is not valid.
        """
        watcher = await self.watch(text("key", key), include_history=True, inactive_threshold=INACTIVE)
        entries = [entry async for entry in _initial(watcher)]
        if not entries:
            raise NoKeysError
        return entries
