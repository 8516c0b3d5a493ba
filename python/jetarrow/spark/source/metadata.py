"""What planning asks the server about streams."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

import jetarrow.sync
from jetarrow.jetstream.errors import APIError, NotFoundError, StreamRecreatedError
from jetarrow.jetstream.models import RetentionPolicy, StreamInfo
from jetarrow.spark._core import api_request
from jetarrow.spark.connection import no_such_stream
from jetarrow.spark.options.connection import ConnectOptions

# Requests about streams that are under way at once.
_SIDE_BY_SIDE = 32

_T = TypeVar("_T")


class Named(Protocol):
    """Options that say which streams are meant."""

    @property
    def connection(self) -> ConnectOptions:
        """Where to ask."""

    @property
    def streams(self) -> tuple[str, ...]:
        """Names, in the order given."""

    @property
    def pattern(self) -> str | None:
        """A regular expression for the whole name, in place of names."""


class Lookup:
    """Asks about streams, and changes nothing.

    Args:
        js: Where to ask.
        options: Checked options of the read, or of a write.
        retry: Does the work it is given; `connection.retry_transient` waits for servers that are away. Default: once.
    """

    def __init__(
        self,
        js: jetarrow.sync.JetStream,
        options: Named,
        retry: Callable[[Callable[[], Any]], Any] = lambda work: work(),
    ) -> None:
        self.js = js
        self._options = options
        self._retry = retry
        self._counts: dict[tuple[str, int, tuple[str, ...]], int | None] = {}

    def infos(self) -> dict[str, StreamInfo]:
        """Return the streams of the options as they are now: in the order given, or by name where a pattern finds them.

        Raises:
            NotFoundError: A stream that is named is not there, or none matches the pattern.
        """
        pattern = self._options.pattern
        if pattern is None:
            return self.each(self._options.streams, self.info)
        names: list[str] = self._retry(lambda: sorted(self.js.stream_names()))
        infos = self.each([name for name in names if re.fullmatch(pattern, name)], self._info_or_none)
        found = {name: info for name, info in infos.items() if info is not None}
        if not found:
            at = ", ".join(self._options.connection.servers)
            raise NotFoundError(message=f"jetstream: no stream at {at} matches option streamPattern={pattern!r}")
        return found

    def each(self, streams: Iterable[str], ask: Callable[[str], _T]) -> dict[str, _T]:
        """Ask about many streams, side by side: one after the other they would wait for a round trip each.

        Args:
            streams: Their names.
            ask: Asks about one, and changes nothing.

        Returns:
            The answers by stream, in the order of the names.

        Raises:
            Exception: What `ask` raises, of the first stream where it does.
        """
        names = list(streams)
        if len(names) < 2:
            return {name: ask(name) for name in names}
        with ThreadPoolExecutor(min(len(names), _SIDE_BY_SIDE), "jetarrow-spark-ask") as pool:
            return dict(zip(names, pool.map(ask, names), strict=True))

    def _info_or_none(self, stream: str) -> StreamInfo | None:
        try:
            return self.info(stream)
        except NotFoundError:  # deleted since it was listed
            return None

    def info(self, stream: str) -> StreamInfo:
        """Return one stream as it is now.

        Raises:
            NotFoundError: There is no such stream.
        """
        try:
            info: StreamInfo = self._retry(lambda: self.js.stream_info(stream))
        except NotFoundError as error:
            raise no_such_stream(error, stream, self._options.connection) from None
        return info

    def first_at(self, stream: str, time: str) -> int | None:
        """Return the sequence of the first message at or after a time, None where there is none.

        Args:
            stream: Name of the stream.
            time: As RFC 3339.
        """
        return self._find(stream, {"start_time": time})

    def next_match(self, stream: str, seq: int, filters: Sequence[str]) -> int | None:
        """Return the first sequence from `seq` on that a filter matches, None where there is none.

        Args:
            stream: Name of the stream.
            seq: Where to begin.
            filters: Subjects; empty for all.
        """
        found = [self._find(stream, {"seq": seq, "next_by_subj": one}) for one in filters or (">",)]
        return min((seq for seq in found if seq is not None), default=None)

    def last_match(self, stream: str, filters: Sequence[str]) -> int | None:
        """Return the last sequence that a filter matches, None where there is none.

        Args:
            stream: Name of the stream.
            filters: Subjects, at least one.
        """
        found = [self._find(stream, {"last_by_subj": one}) for one in filters]
        return max((seq for seq in found if seq is not None), default=None)

    def matching(self, stream: str, seq: int, filters: Sequence[str]) -> int | None:
        """Return how many messages from `seq` on the filters match; None where the server will not say.

        The answer to the creation of a consumer has the number; the consumer is deleted at once. Asked once.

        Args:
            stream: Name of the stream.
            seq: Where to begin.
            filters: Subjects; empty for all.
        """
        key = (stream, seq, tuple(filters))
        if key not in self._counts:
            self._counts[key] = self._count(*key)
        return self._counts[key]

    def _count(self, stream: str, seq: int, filters: Sequence[str]) -> int | None:
        name = f"jetarrow-count-{uuid.uuid4().hex}"
        config = {
            "name": name,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": seq,
            "ack_policy": "none",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": 5_000_000_000,
            **({"filter_subjects": list(filters)} if filters else {}),
        }
        body = {"stream_name": stream, "action": "create", "config": config}
        try:
            answer = self._request(f"CONSUMER.CREATE.{stream}.{name}", body)
            self._request(f"CONSUMER.DELETE.{stream}.{name}", None)
        except APIError:
            return None
        return int(answer["num_pending"])

    def _find(self, stream: str, query: dict[str, Any]) -> int | None:
        try:
            answer = self._request(f"STREAM.MSG.GET.{stream}", query)
        except NotFoundError:
            return None
        return int(answer["message"]["seq"])

    def _request(self, verb: str, body: dict[str, Any] | None) -> Any:
        return self._retry(lambda: api_request(self.js, verb, body))


def created(info: StreamInfo) -> str:
    """Return a stream's creation time as the server writes it, the form in which it is compared."""
    return info.created_raw or ""


def check_created(stream: str, planned: str, now: str) -> None:
    """Refuse a stream that is not the one that was planned.

    Args:
        stream: Its name.
        planned: When the one that was planned was created.
        now: When the present one was created.

    Raises:
        StreamRecreatedError: The two differ.
    """
    if now != planned:
        raise StreamRecreatedError(
            f"stream {stream!r} of {planned} was planned, but it was made again at {now}: its sequences mean other"
            " messages now; load it again, or with a streaming query begin with a new checkpoint, or set onRecreated to"
            " earliest (go on at the new stream's first message) or continue (it has the same sequences, as where a"
            " mirror took over)"
        )


def retention(info: StreamInfo) -> str:
    """Return limits, workqueue or interest."""
    return info.config.retention or RetentionPolicy.LIMITS


def consumes(info: StreamInfo) -> bool:
    """Whether a consumer takes messages away: work-queue and interest streams."""
    return retention(info) != RetentionPolicy.LIMITS


def first_sequence(info: StreamInfo) -> int:
    """Return the sequence of a stream's first message, or of the one that will be its first."""
    return max(1, info.state.first_seq)


def end_sequence(info: StreamInfo) -> int:
    """Return the sequence after a stream's last message."""
    return info.state.last_seq + 1
