"""Watching of keys."""

from __future__ import annotations

from collections.abc import Sequence

from jetarrow.core.arguments import whole
from jetarrow.core.docstrings import with_entries_of
from jetarrow.jetstream import models
from jetarrow.jetstream.errors import DataLossError, NotFoundError
from jetarrow.jetstream.kv.bucket import Bucket
from jetarrow.jetstream.kv.names import filters_of
from jetarrow.jetstream.kv.watcher import KeyWatcher, Updates
from jetarrow.jetstream.literals import OnRollback, check_literal
from jetarrow.jetstream.manage import Management

# Default inactive threshold in seconds of the consumer of a watch.
INACTIVE = 5 * 60.0


class Watch(Bucket):
    """The verbs `watch` and `watchall`."""

    async def watch(
        self,
        keys: str | Sequence[str],
        headers_only: bool = False,
        include_history: bool = False,
        ignore_deletes: bool = False,
        meta_only: bool = False,
        inactive_threshold: float | None = None,
        *,
        updates_only: bool = False,
        resume_from_revision: int | None = None,
        on_rollback: OnRollback = "fail",
    ) -> KeyWatcher:
        """Watches keys: yields the last value of each existing key, then None, then every change.

        Args:
            keys: A key or a filter, such as `orders.>`, or several.
            headers_only: Another name for `meta_only`.
            include_history: Yield all stored revisions, not only the last one of each key.
            ignore_deletes: Skip markers.
            meta_only: Omit the values.
            inactive_threshold: Seconds after which the server removes the unused consumer, default 300.
            updates_only: Yield only later changes, after a first None.
            resume_from_revision: Begin with this revision, whether or not it is its key's last one.
            on_rollback: Reaction if the server was rolled back behind the watched revisions, checked after each
                reconnect: "fail" raises `StreamRolledBackError`; "continue" warns and continues after the last revision
                that the bucket still has; "earliest" warns and restarts with the present values.

        Returns:
            The watcher: iterate it, or await its `updates()`; `stop()` or the end of its `async with` block stops it.

        Raises:
            BucketNotFoundError: The bucket does not exist.
            InvalidKeyError: A filter is not valid.
            ValueError: More than one of `include_history`, `updates_only` and `resume_from_revision` is given.
            DataLossError: The bucket ends before `resume_from_revision`: it was rolled back or created again.
            StreamRolledBackError: The bucket was rolled back during the watch: see `on_rollback`.
        """
        check_literal("on_rollback", on_rollback, OnRollback)
        policy = models.DeliverPolicy.LAST_PER_SUBJECT
        whole("resume_from_revision", resume_from_revision)
        if include_history + updates_only + (resume_from_revision is not None) > 1:
            raise ValueError("include_history, updates_only and resume_from_revision exclude each other")
        if include_history:
            policy = models.DeliverPolicy.ALL
        elif updates_only:
            policy = models.DeliverPolicy.NEW
        elif resume_from_revision is not None:
            policy = models.DeliverPolicy.BY_START_SEQUENCE
        subjects = [self._pre + key for key in filters_of(keys)]
        config = models.ConsumerConfig(
            deliver_policy=policy,
            opt_start_seq=resume_from_revision,
            filter_subject=subjects[0] if len(subjects) == 1 else None,
            filter_subjects=subjects if len(subjects) > 1 else None,
            headers_only=headers_only or meta_only or None,
            inactive_threshold=inactive_threshold or INACTIVE,
        )
        updates = Updates(self._js._api, self._stream, config, self._created, on_rollback)
        try:
            if resume_from_revision is not None:
                await self._check_revision(resume_from_revision)
            await updates.open()
        except NotFoundError as error:
            self._raise_missing(error)
        return KeyWatcher(updates, self._name, self._pre, ignore_deletes=ignore_deletes)

    @with_entries_of(watch)
    async def watchall(
        self,
        headers_only: bool = False,
        include_history: bool = False,
        ignore_deletes: bool = False,
        meta_only: bool = False,
        inactive_threshold: float | None = None,
        *,
        updates_only: bool = False,
        resume_from_revision: int | None = None,
        on_rollback: OnRollback = "fail",
    ) -> KeyWatcher:
        """Watches all keys, as `watch`.

        Args:
            headers_only: As `watch`.
            include_history: As `watch`.
            ignore_deletes: As `watch`.
            meta_only: As `watch`.
            inactive_threshold: As `watch`.
            updates_only: As `watch`.
            resume_from_revision: As `watch`.
            on_rollback: As `watch`.
        """
        return await self.watch(
            ">",
            headers_only,
            include_history,
            ignore_deletes,
            meta_only,
            inactive_threshold,
            updates_only=updates_only,
            resume_from_revision=resume_from_revision,
            on_rollback=on_rollback,
        )

    async def _check_revision(self, revision: int) -> None:
        last = (await Management(self._js._api).stream_info(self._stream)).state.last_seq
        if revision > last + 1:
            raise DataLossError(
                revision,
                last + 1,
                message=f"could not resume watching bucket {self._name!r} at {revision}: its last revision is {last},"
                " because it was rolled back or created again; watch it without resume_from_revision",
            )
