"""What planning asks the server."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jetarrow.sync
from jetarrow._run import finish
from jetarrow.js.api import StreamInfo
from jetarrow.js.errors import APIError, NotFoundError
from jetarrow.spark.options.read import ReadOptions

_T = TypeVar("_T")


class Lookup:
    """Questions about streams. None changes anything.

    Args:
        js: Where to ask.
        options: Checked options of the read.
        again: Does the work it is given; `connection.patiently` waits for servers that are away. Default: once.
    """

    def __init__(
        self,
        js: jetarrow.sync.JetStream,
        options: ReadOptions,
        again: Callable[[Callable[[], Any]], Any] = lambda work: work(),
    ) -> None:
        self.js = js
        self._options = options
        self._again = again

    def infos(self) -> dict[str, StreamInfo]:
        """Return the streams of the options as they are now: in the order given, or by name where a pattern finds them.

        Raises:
            NotFoundError: A stream that is named is not there, or none matches the pattern.
        """
        pattern = self._options.pattern
        if pattern is None:
            return {name: self.info(name) for name in self._options.streams}
        names: list[str] = self._again(lambda: sorted(self.js.stream_names()))
        found = {}
        for name in names:
            if re.fullmatch(pattern, name):
                try:
                    found[name] = self.info(name)
                except NotFoundError:  # deleted since it was listed
                    continue
        if not found:
            at = ", ".join(self._options.connection.servers)
            raise NotFoundError(message=f"jetstream: no stream at {at} matches option streamPattern={pattern!r}")
        return found

    def info(self, stream: str) -> StreamInfo:
        """Return one stream as it is now."""
        try:
            info: StreamInfo = self._again(lambda: self.js.stream_info(stream))
        except NotFoundError as error:
            at = ", ".join(self._options.connection.servers)
            message = f"jetstream: there is no stream {stream!r} at {at}"
            raise NotFoundError(error.code, error.description, error.err_code, message=message) from None
        return info

    def first_at(self, stream: str, when: str) -> int | None:
        """Return the sequence of the first message at or after a time (RFC 3339), None where there is none."""
        return self._find(stream, {"start_time": when})

    def next_match(self, stream: str, seq: int, filters: Sequence[str]) -> int | None:
        """Return the first sequence from `seq` on that a filter matches, None where there is none."""
        found = [self._find(stream, {"seq": seq, "next_by_subj": one}) for one in filters or (">",)]
        return min((seq for seq in found if seq is not None), default=None)

    def last_match(self, stream: str, filters: Sequence[str]) -> int | None:
        """Return the last sequence that a filter matches, None where there is none."""
        found = [self._find(stream, {"last_by_subj": one}) for one in filters]
        return max((seq for seq in found if seq is not None), default=None)

    def matching(self, stream: str, seq: int, filters: Sequence[str]) -> int | None:
        """Return how many messages from `seq` on the filters match; None where the server will not say.

        A consumer's first answer tells; it is deleted at once.
        """
        name = f"jetarrow-count-{uuid.uuid4().hex}"
        config = {
            "name": name,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": seq,
            "ack_policy": "none",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": 5_000_000_000,
            "filter_subjects": list(filters),
        }
        body = {"stream_name": stream, "action": "create", "config": config}
        try:
            answer = self._api(f"CONSUMER.CREATE.{stream}.{name}", body)
            self._api(f"CONSUMER.DELETE.{stream}.{name}", None)
        except APIError:
            return None
        return int(answer["num_pending"])

    def _find(self, stream: str, query: dict[str, Any]) -> int | None:
        try:
            answer = self._api(f"STREAM.MSG.GET.{stream}", query)
        except NotFoundError:
            return None
        return int(answer["message"]["seq"])

    def _api(self, verb: str, body: dict[str, Any] | None) -> Any:
        return self._again(lambda: finish(self.js._inner._api(verb, body)))
