"""Iteration over a stream's messages in order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from jetarrow._jetarrow import Msg
from jetarrow.core.errors import Error
from jetarrow.core.suggestions import suggests_keywords
from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.errors import NotFoundError
from jetarrow.jetstream.literals import OnRollback, check_literal
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.manage.consumers import put_consumer
from jetarrow.jetstream.models import DeliverPolicy, ReplayPolicy
from jetarrow.jetstream.push import PushSubscription, ordered_config
from jetarrow.jetstream.read_spec import ReadSpec
from jetarrow.jetstream.reader import Reader

# Columns that a message is built from, and most rows of a batch.
COLUMNS = ("subject", "headers", "data", "reply")
BURST_ROWS = 4096

_LIMITS = (models.DEFAULT_JS_SUB_PENDING_MSGS_LIMIT, models.DEFAULT_JS_SUB_PENDING_BYTES_LIMIT)


@dataclass
class OrderedSpec:
    """The validated options of `ordered_consumer`."""

    stream: str
    subjects: list[str]
    start_seq: int | None
    start_time: datetime | str | None
    deliver_policy: DeliverPolicy | None
    replay_policy: ReplayPolicy | None
    headers_only: bool
    on_rollback: OnRollback = "fail"

    def __post_init__(self) -> None:
        """Checks that policy and start are compatible.

        Raises:
            ValueError: They are not, or an option has an invalid value.
        """
        check_literal("on_rollback", self.on_rollback, OnRollback)
        given = self.start_seq is not None, self.start_time is not None
        if all(given):
            raise ValueError("give start_seq or start_time, not both")
        needs = {DeliverPolicy.BY_START_SEQUENCE: (True, False), DeliverPolicy.BY_START_TIME: (False, True)}
        if self.deliver_policy is not None and needs.get(self.deliver_policy, (False, False)) != given:
            raise ValueError(
                f"deliver_policy={self.deliver_policy.value!r} contradicts start_seq={self.start_seq} and"
                f" start_time={self.start_time}: pass the policy or a start"
            )

    @property
    def pushed(self) -> bool:
        """Whether it needs a push consumer: a read has no pace, delivers payloads, and starts at one sequence."""
        paced = self.replay_policy is ReplayPolicy.ORIGINAL
        return paced or self.headers_only or self.deliver_policy is DeliverPolicy.LAST_PER_SUBJECT


class OrderedConsumer:
    """All messages of a stream in order, without gaps and without end. Created by `js.ordered_consumer`.

    A lost consumer is recreated at the next sequence, so `async for` has no gap across reconnects and leader changes.
    The messages need no acks. Each `async for` begins at the given start.
    """

    def __init__(self, api: JetStreamApi, spec: OrderedSpec) -> None:
        self._api = api
        self._spec = spec

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of stream {self._spec.stream}>"

    async def __aiter__(self) -> AsyncIterator[Msg]:
        if self._spec.pushed:
            sub = await self._push()
            try:
                async for msg in sub.messages:
                    yield msg
            finally:
                with suppress(Error):
                    await sub.unsubscribe()
                    await Management(self._api).delete_consumer(self._spec.stream, sub._consumer)
            return
        async with await self._read() as reader:
            async for batch in reader:
                for msg in batch:
                    yield msg

    async def _read(self) -> Reader:
        spec = self._spec
        read = ReadSpec(
            spec.stream,
            subjects=spec.subjects or None,
            start_seq=await self._first(),
            start_time=spec.start_time,
            columns=COLUMNS,
            batch_rows=BURST_ROWS,
            follow=True,
            on_rollback=spec.on_rollback,
        )
        return Reader(self._api, read)

    async def _first(self) -> int | None:
        """The first sequence; None is the first of the stream, or that of `start_time`."""
        spec, manage = self._spec, Management(self._api)
        if spec.deliver_policy not in (DeliverPolicy.LAST, DeliverPolicy.NEW):
            return spec.start_seq
        end = (await manage.stream_info(spec.stream)).state.last_seq + 1
        if spec.deliver_policy is DeliverPolicy.NEW:
            return end
        last = 0
        for subject in spec.subjects or [">"]:
            with suppress(NotFoundError):
                last = max(last, (await manage.get_last_msg(spec.stream, subject)).seq or 0)
        return last or end

    async def _push(self) -> PushSubscription:
        spec, api = self._spec, self._api
        config = models.ConsumerConfig(
            deliver_subject=api.session.native.new_inbox(),
            deliver_policy=spec.deliver_policy or DeliverPolicy.ALL,
            replay_policy=spec.replay_policy or ReplayPolicy.INSTANT,
            headers_only=spec.headers_only or None,
            # The server requires a filter for `last_per_subject`.
            filter_subjects=spec.subjects or [">"],
        )
        if spec.start_seq is not None:
            config = config.evolve(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=spec.start_seq)
        elif spec.start_time is not None:
            config = config.evolve(deliver_policy=DeliverPolicy.BY_START_TIME, opt_start_time=spec.start_time)
        info = await put_consumer(api, spec.stream, ordered_config(config))
        sub = PushSubscription(
            api,
            spec.stream,
            info.name,
            info.config,
            cb=None,
            ordered=True,
            limits=_LIMITS,
            on_rollback=spec.on_rollback,
        )
        sub._set_start(info)
        await sub._start()
        return sub


def make_ordered_consumer(
    api: JetStreamApi,
    stream: str,
    subjects: str | Sequence[str] | None = None,
    *,
    start_seq: int | None = None,
    start_time: datetime | str | None = None,
    deliver_policy: DeliverPolicy | str | None = None,
    replay_policy: ReplayPolicy | str | None = None,
    headers_only: bool = False,
    on_rollback: OnRollback = "fail",
) -> OrderedConsumer:
    """Creates an ordered consumer; see `js.ordered_consumer`."""
    return OrderedConsumer(
        api,
        OrderedSpec(
            stream,
            [subjects] if isinstance(subjects, str) else list(subjects or ()),
            start_seq,
            start_time,
            None if deliver_policy is None else DeliverPolicy(deliver_policy),
            None if replay_policy is None else ReplayPolicy(replay_policy),
            headers_only,
            on_rollback,
        ),
    )


class OrderedVerbs:
    """The verb `ordered_consumer` of a context."""

    _api: JetStreamApi

    @suggests_keywords
    def ordered_consumer(
        self,
        stream: str,
        subjects: str | Sequence[str] | None = None,
        *,
        start_seq: int | None = None,
        start_time: datetime | str | None = None,
        deliver_policy: DeliverPolicy | str | None = None,
        replay_policy: ReplayPolicy | str | None = None,
        headers_only: bool = False,
        on_rollback: OnRollback = "fail",
    ) -> OrderedConsumer:
        """A stream's messages in order, without end: `async for msg in js.ordered_consumer("S")`.

        Args:
            stream: The stream.
            subjects: Filters, one or several that do not overlap; None is all.
            start_seq: First sequence; None is the first of the stream.
            start_time: Instead of a sequence: the first message at or after this time.
            deliver_policy: Instead of a start: "all", "new", "last" (from the last message), or "last_per_subject"
                (from the last message of each subject).
            replay_policy: "instant", or "original": at the pace at which the messages were published. Default instant.
            headers_only: Deliver messages without their payloads.
            on_rollback: As `js.read`: reaction to a stream that was rolled back behind the position.

        Raises:
            ValueError: Policy and start are not compatible.
            DataLossError: While it is iterated: a limit or a purge removed messages before they were read. Not detected
                with "last_per_subject", "original" and `headers_only`.
            StreamRecreatedError: While it is iterated: the stream was deleted and created again. Not detected with
                these options either.
            StreamRolledBackError: While it is iterated: see `on_rollback`.
            NotFoundError: While it is iterated: the stream does not exist.
        """
        return make_ordered_consumer(
            self._api,
            stream,
            subjects,
            start_seq=start_seq,
            start_time=start_time,
            deliver_policy=deliver_policy,
            replay_policy=replay_policy,
            headers_only=headers_only,
            on_rollback=on_rollback,
        )
