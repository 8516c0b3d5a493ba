"""Reading a bucket: get, watches, keys, history, status."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from ..client.errors import StatusError
from ..jetstream.consumer import OrderedConsumerConfig
from ..jetstream.errors import MessageNotFoundError
from .entries import KeyValueEntry, KeyValueOp, KeyValueStatus, operation_of, status_of
from .errors import KeyNotFoundError, KeyValueError
from .keys import check_key, check_pattern
from .watcher import KeyHistory, KeyLister, KeyWatcher

if TYPE_CHECKING:
    from ..jetstream import JetStream
    from ..jetstream.consumer import Consumer, DeliverPolicy
    from ..jetstream.message import Message
    from ..jetstream.stream import Stream

STREAM_PREFIX = "KV_"
# With a domain, the server maps the subjects of keys below the prefix of its API.
_DOMAIN_PREFIX = re.compile(r"\$JS\.[^.]+\.API")


def _prefixes(name: str, stream: Stream, js: JetStream) -> tuple[str, str]:
    """Return the subjects' prefixes from which keys are read, and to which they are written."""
    api = js.api_prefix
    mirror = stream.info.config.mirror if stream.info else None
    if mirror is None:
        prefix = f"$KV.{name}."
        return prefix, f"{api}.{prefix}" if _DOMAIN_PREFIX.fullmatch(api) else prefix
    # A mirror has the subjects of its origin, and no subjects of its own to which one could publish.
    prefix = f"$KV.{mirror.name.removeprefix(STREAM_PREFIX)}."
    return prefix, f"{mirror.external.api}.{prefix}" if mirror.external else prefix


async def _no_messages() -> AsyncIterator[Message]:
    return
    yield


class BucketReader:
    """The part of a bucket that reads: get, watch, keys, history, status."""

    def __init__(self, name: str, stream: Stream, js: JetStream) -> None:
        self._name = name
        self._stream = stream
        self._js = js
        self._prefix, self._put_prefix = _prefixes(name, stream, js)

    @property
    def bucket(self) -> str:
        """Name of the bucket."""
        return self._name

    async def get(self, key: str, *, revision: int | None = None) -> KeyValueEntry:
        """Return the value of a key.

        Args:
            key: The key.
            revision: The revision to return. Default: the latest.

        Returns:
            The entry.

        Raises:
            InvalidKeyError: The key is not valid.
            KeyNotFoundError: The key does not exist, is deleted, or the revision is another key's.
        """
        check_key(key)
        entry = await self._get(key, revision)
        if entry.operation is not KeyValueOp.PUT:
            raise KeyNotFoundError(key)
        return entry

    async def _get(self, key: str, revision: int | None = None) -> KeyValueEntry:
        """Return the entry of a key, also if it is a deletion."""
        subject = f"{self._prefix}{key}"
        try:
            if revision is None:
                message = await self._stream.get_last_message_for_subject(subject)
            else:
                message = await self._stream.get_message(revision)
        except MessageNotFoundError as error:
            raise KeyNotFoundError(key) from error
        except StatusError as error:
            # A direct get has a status in place of an error code.
            if error.status != "404":
                raise
            raise KeyNotFoundError(key) from error
        if message.subject != subject:
            raise KeyNotFoundError(key)
        return KeyValueEntry(
            bucket=self._name,
            key=key,
            value=message.data,
            revision=message.sequence,
            created=message.time,
            delta=0,
            operation=operation_of(message.headers),
        )

    async def status(self) -> KeyValueStatus:
        """Return the state of the bucket."""
        return status_of(self._name, await self._js.get_stream_info(self._stream.name))

    async def watch(
        self,
        keys: str = ">",
        *,
        include_history: bool = False,
        ignore_deletes: bool = False,
        meta_only: bool = False,
        updates_only: bool = False,
        resume_from_revision: int | None = None,
    ) -> KeyWatcher:
        """Watch keys.

        Args:
            keys: A key or pattern with `*` and `>`. Default: all keys.
            include_history: Begin with all revisions instead of the latest ones. Default: False.
            ignore_deletes: Leave deletions out. Default: False.
            meta_only: Leave values out. Default: False.
            updates_only: Begin with the next entry that is stored. Default: False.
            resume_from_revision: Begin with this revision; the other options for the begin are ignored then.

        Returns:
            The watch.

        Raises:
            InvalidKeyError: The pattern is not valid.
            KeyValueError: Both `include_history` and `updates_only` are given.
        """
        return await self.watch_filtered(
            [keys],
            include_history=include_history,
            ignore_deletes=ignore_deletes,
            meta_only=meta_only,
            updates_only=updates_only,
            resume_from_revision=resume_from_revision,
        )

    async def watch_filtered(
        self,
        keys: list[str],
        *,
        include_history: bool = False,
        ignore_deletes: bool = False,
        meta_only: bool = False,
        updates_only: bool = False,
        resume_from_revision: int | None = None,
    ) -> KeyWatcher:
        """Watch the keys of several patterns.

        Args:
            keys: Keys or patterns; all keys if the list is empty.
            include_history: As for `watch`.
            ignore_deletes: As for `watch`.
            meta_only: As for `watch`.
            updates_only: As for `watch`.
            resume_from_revision: As for `watch`.

        Returns:
            The watch.

        Raises:
            InvalidKeyError: A pattern is not valid.
            KeyValueError: Both `include_history` and `updates_only` are given.
        """
        for key in keys:
            check_pattern(key)
        if include_history and updates_only:
            raise KeyValueError("include_history and updates_only are mutually exclusive")
        policy: DeliverPolicy
        if resume_from_revision is not None:
            policy = "by_start_sequence"
        elif updates_only:
            policy = "new"
        else:
            policy = "all" if include_history else "last_per_subject"
        consumer = await self._consumer(keys, policy, headers_only=meta_only, opt_start_seq=resume_from_revision)
        pending = 0 if updates_only else consumer.info.num_pending
        return KeyWatcher(
            consumer,
            aiter(await consumer.messages()),
            self._prefix,
            self._name,
            ignore_deletes=ignore_deletes,
            meta_only=meta_only,
            init_pending=pending,
        )

    async def watch_all(
        self,
        *,
        include_history: bool = False,
        ignore_deletes: bool = False,
        meta_only: bool = False,
        updates_only: bool = False,
        resume_from_revision: int | None = None,
    ) -> KeyWatcher:
        """Watch all keys.

        Args:
            include_history: As for `watch`.
            ignore_deletes: As for `watch`.
            meta_only: As for `watch`.
            updates_only: As for `watch`.
            resume_from_revision: As for `watch`.

        Returns:
            The watch.

        Raises:
            KeyValueError: Both `include_history` and `updates_only` are given.
        """
        return await self.watch(
            include_history=include_history,
            ignore_deletes=ignore_deletes,
            meta_only=meta_only,
            updates_only=updates_only,
            resume_from_revision=resume_from_revision,
        )

    async def keys(self, keys: str = ">") -> KeyLister:
        """List the keys that have a value.

        Args:
            keys: A pattern with `*` and `>`. Default: all keys.

        Returns:
            An iterator over the keys.

        Raises:
            InvalidKeyError: The pattern is not valid.
        """
        check_pattern(keys)
        consumer = await self._consumer([keys], "last_per_subject", headers_only=True)
        done, messages = await self._messages(consumer)
        return KeyLister(consumer, messages, self._prefix, done=done)

    async def history(self, key: str) -> KeyHistory:
        """List the revisions of a key, with deletions.

        Args:
            key: The key.

        Returns:
            An iterator over the entries, the oldest first.

        Raises:
            InvalidKeyError: The key is not valid.
        """
        check_key(key)
        return await self._history(await self._consumer([key], "all"))

    async def _history(self, consumer: Consumer) -> KeyHistory:
        done, messages = await self._messages(consumer)
        return KeyHistory(consumer, messages, self._prefix, self._name, done=done)

    async def _consumer(
        self,
        keys: Sequence[str],
        policy: DeliverPolicy,
        *,
        headers_only: bool = False,
        opt_start_seq: int | None = None,
    ) -> Consumer:
        config = OrderedConsumerConfig(
            filter_subjects=[f"{self._prefix}{key}" for key in keys],
            deliver_policy=policy,
            opt_start_seq=opt_start_seq,
            headers_only=True if headers_only else None,
        )
        return await self._js.ordered_consumer(self._stream.name, config)

    async def _messages(self, consumer: Consumer) -> tuple[bool, AsyncIterator[Message]]:
        """Return whether a new consumer has no messages, and an iterator over them."""
        # The response to the creation has the count; messages that are stored later are not part of a list.
        if consumer.info.num_pending == 0:
            await consumer.close()
            return True, _no_messages()
        return False, aiter(await consumer.messages())
