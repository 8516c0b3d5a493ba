"""Requests about streams that planning needs."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import jetarrow.sync
from jetarrow.core.errors import PermissionsViolationError
from jetarrow.jetstream.errors import APIError, NotFoundError, StreamRecreatedError
from jetarrow.jetstream.models import ClusterInfo, RetentionPolicy, StreamConfig, StreamInfo, StreamState
from jetarrow.jetstream.models.values import epoch_ns
from jetarrow.spark._core import Mark, Witness, api_request, request_each, witness
from jetarrow.spark.connection import no_such_stream
from jetarrow.spark.options.connection import ConnectOptions

# Maximum number of concurrent requests.
_MAX_CONCURRENT = 32

# Number of requests from which on they share one subscription for their responses.
_MANY = 8
# The first fields of `StreamState`.
_COUNTS = ("messages", "bytes", "first_seq", "last_seq", "consumer_count")
# Status of a response without a matching message.
_NO_MESSAGE = 404
# Cache of parsed configurations by stream, which rarely change.
_configs: dict[str, tuple[dict[str, Any], StreamConfig]] = {}

_A = TypeVar("_A")
_T = TypeVar("_T")


@dataclass
class _LeanInfo(StreamInfo):
    """Stream info with only configuration, counts, last message, leader and creation time."""

    created_text: str | None = None

    @property
    def created_raw(self) -> str | None:
        return self.created_text


class Named(Protocol):
    """Options that select streams."""

    @property
    def connection(self) -> ConnectOptions:
        """Servers and credentials."""

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the streams, in the given order."""

    @property
    def pattern(self) -> str | None:
        """A regular expression for whole names, instead of names."""


class Lookup:
    """Read-only requests about streams.

    Args:
        js: The context.
        options: Validated options of a read or a write.
        retry: Calls a function; `connection.retry_transient` retries transient errors. Default: one attempt.
    """

    def __init__(
        self,
        js: jetarrow.sync.JetStream,
        options: Named,
        retry: Callable[[Callable[[], Any]], Any] = lambda work: work(),
    ) -> None:
        self.js = js
        self._options = options
        self.retry = retry
        self._counts: dict[tuple[str, int, tuple[str, ...]], int | None] = {}
        # State of the connection before the first request: after a reconnect, responses may be of another history.
        self.witness: Witness = witness(js)

    def infos(self) -> dict[str, StreamInfo]:
        """Return present info of the streams of the options: in the given order, or by name if a pattern selects them.

        Raises:
            NotFoundError: A named stream does not exist, or none matches the pattern.
        """
        pattern = self._options.pattern
        if pattern is None:
            return self.many(self._options.streams)
        names: list[str] = self.retry(lambda: sorted(self.js.stream_names()))
        found = self.many([name for name in names if re.fullmatch(pattern, name)], gone=True)
        if not found:
            at = ", ".join(self._options.connection.servers)
            raise NotFoundError(message=f"jetstream: no stream at {at} matches option streamPattern={pattern!r}")
        return found

    def many(self, streams: Iterable[str], *, gone: bool = False) -> dict[str, StreamInfo]:
        """Return present info of streams.

        Args:
            streams: Their names.
            gone: Whether missing streams are omitted. Default: they are an error.

        Returns:
            Info with the fields that planning needs, in the order of the names.

        Raises:
            NotFoundError: A stream does not exist.
        """
        names = list(streams)
        if len(names) < _MANY:
            return self._one_by_one(names, gone=gone)
        answers = request_each(self.js, [(f"STREAM.INFO.{name}", None) for name in names])
        found = {name: self._lean(name, answer) for name, answer in zip(names, answers, strict=True)}
        # Streams without a response or with an error are requested one by one, which retries or raises.
        rest = self._one_by_one([name for name, info in found.items() if info is None], gone=gone)
        return {name: info for name in names if (info := found[name] or rest.get(name)) is not None}

    def _one_by_one(self, names: list[str], *, gone: bool) -> dict[str, StreamInfo]:
        infos = self._concurrently(self._info_or_none if gone else self.info, names)
        return {name: info for name, info in zip(names, infos, strict=True) if info is not None}

    @staticmethod
    def _lean(name: str, answer: Any) -> StreamInfo | None:
        """Return the info in a response; None if it is not an info of the stream."""
        try:
            config, state, made = answer["config"], answer["state"], answer["created"]
            counts = StreamState(*(state[field] for field in _COUNTS))
            counts.last_ts = state.get("last_ts")
            leader = answer.get("cluster", {}).get("leader")
        except (KeyError, TypeError):
            return None
        known = _configs.get(name)
        if known is None or known[0] != config:
            known = _configs[name] = (config, StreamConfig.from_response(config))
        return _LeanInfo(known[1], counts, created_text=made, cluster=ClusterInfo(leader=leader))

    @staticmethod
    def _concurrently(ask: Callable[[_A], _T], asked: Sequence[_A]) -> list[_T]:
        if len(asked) < 2:
            return [ask(one) for one in asked]
        with ThreadPoolExecutor(min(len(asked), _MAX_CONCURRENT), "jetarrow-spark-ask") as pool:
            return list(pool.map(ask, asked))

    def _info_or_none(self, stream: str) -> StreamInfo | None:
        try:
            return self.info(stream)
        except NotFoundError:  # deleted since it was listed
            return None

    def info(self, stream: str) -> StreamInfo:
        """Return present info of a stream.

        Raises:
            NotFoundError: The stream does not exist.
        """
        try:
            info: StreamInfo = self.retry(lambda: self.js.stream_info(stream))
        except NotFoundError as error:
            raise no_such_stream(error, stream, self._options.connection) from None
        return info

    def first_at(self, stream: str, time: str) -> int | None:
        """Return the sequence of the first message at or after a time; None if there is none.

        Args:
            stream: Name of the stream.
            time: As RFC 3339.
        """
        found = self._find(stream, {"start_time": time})
        return None if found is None else found[0]

    def at(self, seqs: Mapping[str, int]) -> dict[str, Mark | None]:
        """Return marks of messages; None for a missing message, or without the permission to read it.

        Args:
            seqs: Their sequences, by stream.
        """
        asked = [(name, {"seq": seq}) for name, seq in seqs.items()]
        try:
            return dict(zip(seqs, self._each(asked), strict=True))
        except PermissionsViolationError:
            return dict.fromkeys(seqs)

    def next_match(self, stream: str, seq: int, filters: Sequence[str]) -> Mark | None:
        """Return the mark of the first message from `seq` on that a filter matches; None if there is none.

        Args:
            stream: Name of the stream.
            seq: First sequence of the search.
            filters: Subjects; empty for all.
        """
        found = [self._find(stream, {"seq": seq, "next_by_subj": one}) for one in filters or (">",)]
        return min((mark for mark in found if mark is not None), default=None)

    def last_matches(self, filters: Mapping[str, Sequence[str]]) -> dict[str, Mark | None]:
        """Return the mark of the last message that a filter matches, by stream; None if there is none.

        Args:
            filters: Subjects by stream, at least one for each.
        """
        asked = [(name, one) for name, subjects in filters.items() for one in subjects]
        found: dict[str, list[Mark]] = {name: [] for name in filters}
        marks = self._each([(name, {"last_by_subj": one}) for name, one in asked])
        for (name, _), mark in zip(asked, marks, strict=True):
            found[name] += [] if mark is None else [mark]
        return {name: max(marks, default=None) for name, marks in found.items()}

    def _each(self, asked: list[tuple[str, dict[str, Any]]]) -> list[Mark | None]:
        """Return the marks of the messages that queries find in their streams; None if there is none."""
        if len(asked) < _MANY:
            return self._concurrently(lambda one: self._find(*one), asked)
        answers = request_each(self.js, [(f"STREAM.MSG.GET.{name}", query) for name, query in asked])
        found: list[Mark | None] = []
        rest = []
        for at, answer in enumerate(answers):
            known = isinstance(answer, dict) and ("message" in answer or answer["error"]["code"] == _NO_MESSAGE)
            found.append(_mark(answer) if known and "message" in answer else None)
            rest += [] if known else [at]
        for at, mark in zip(rest, self._concurrently(lambda at: self._find(*asked[at]), rest), strict=True):
            found[at] = mark
        return found

    def matching(self, stream: str, seq: int, filters: Sequence[str]) -> int | None:
        """Return the number of messages from `seq` on that filters match; None if the server rejects the request.

        The response to the creation of a consumer has the number; the consumer is deleted at once. Results are cached.

        Args:
            stream: Name of the stream.
            seq: First sequence to count.
            filters: Subjects; empty for all.
        """
        key = (stream, seq, tuple(filters))
        if key not in self._counts:
            self._counts[key] = self._count(*key)
        return self._counts[key]

    def subjects(self, stream: str, most: int, *, end: int) -> list[str] | None:
        """Return all subjects of a stream's messages; None if there are more than `most`, or the leader lags.

        Args:
            stream: Name of the stream.
            most: Maximum number of subjects.
            end: The sequence after the last message whose subject is required.

        Raises:
            NotFoundError: The stream does not exist.
        """
        verb = f"STREAM.INFO.{stream}"
        if int(self._request(verb, None)["state"].get("num_subjects", 0)) > most:
            return None
        answer = self._request(verb, {"subjects_filter": ">"})
        state = answer["state"]
        found = list(state.get("subjects") or ())
        # A new leader may lag behind the planned messages; a response may be a page, or have subjects added meanwhile.
        complete = int(state["last_seq"]) >= end - 1 and int(answer.get("total", 0)) <= len(found) <= most
        return found if complete else None

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

    def _find(self, stream: str, query: dict[str, Any]) -> Mark | None:
        try:
            return _mark(self._request(f"STREAM.MSG.GET.{stream}", query))
        except NotFoundError:
            return None

    def _request(self, verb: str, body: dict[str, Any] | None) -> Any:
        return self.retry(lambda: api_request(self.js, verb, body))


def _mark(answer: Any) -> Mark:
    message = answer["message"]
    return int(message["seq"]), epoch_ns(message["time"])


def created(info: StreamInfo) -> str:
    """Return a stream's creation time in the server's format, which is used for comparisons."""
    return info.created_raw or ""


def check_created(stream: str, planned: str, now: str) -> None:
    """Check that a stream is the one that was planned.

    Args:
        stream: Name of the stream.
        planned: Creation time of the planned stream.
        now: Creation time of the present stream.

    Raises:
        StreamRecreatedError: The two differ.
    """
    if now != planned:
        raise StreamRecreatedError(
            f"stream {stream!r} of {planned} was planned, but it was created again at {now}, so its sequences are other"
            " messages; load it again, or for a streaming query use a new checkpoint, or set onRecreated to earliest"
            " (restart at the new stream's first message) or continue (it has the same sequences, such as a promoted"
            " mirror)"
        )


def retention(info: StreamInfo) -> str:
    """Return the retention policy: limits, workqueue or interest."""
    return info.config.retention or RetentionPolicy.LIMITS


def consumes(info: StreamInfo) -> bool:
    """Return whether acknowledged messages are removed, as by work-queue and interest streams."""
    return retention(info) != RetentionPolicy.LIMITS


def first_sequence(info: StreamInfo) -> int:
    """Return the sequence of a stream's first message, or of the next one if the stream is empty."""
    return max(1, info.state.first_seq)


def end_sequence(info: StreamInfo) -> int:
    """Return the sequence after a stream's last message."""
    return info.state.last_seq + 1
