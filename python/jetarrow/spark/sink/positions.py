"""Positions of streams by the server's clock: what a stream had when a write was planned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import jetarrow.sync
from jetarrow.jetstream.models.values import epoch_ns
from jetarrow.spark._core import api_request, request_each
from jetarrow.spark.connection import retry_transient

_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True)
class Position:
    """A stream at one time.

    Attributes:
        seq: Sequence of its last message.
        created: Creation time of the stream in the server's format.
        time: Seconds since 1970 by the server's clock.
        window: Duplicate window in seconds.
    """

    seq: int
    created: str
    time: float
    window: float


def position_of(js: jetarrow.sync.JetStream, stream: str) -> Position:
    """Return the present position of a stream; retries transient errors.

    Args:
        js: The context.
        stream: Name of the stream.

    Raises:
        NotFoundError: The stream does not exist.
    """
    return _parsed(retry_transient(lambda: api_request(js, f"STREAM.INFO.{stream}")))


def positions_of(js: jetarrow.sync.JetStream, streams: Iterable[str]) -> dict[str, Position]:
    """Return the present positions of streams, without those that were deleted meanwhile.

    Args:
        js: The context.
        streams: Names of the streams.
    """
    names = list(streams)
    answers = request_each(js, [(f"STREAM.INFO.{name}", None) for name in names])
    return {
        name: _parsed(answer)
        for name, answer in zip(names, answers, strict=True)
        if isinstance(answer, dict) and "state" in answer
    }


def _parsed(answer: dict[str, Any]) -> Position:
    # Servers before 2.10 send no time. Without it every proof is too old.
    time = epoch_ns(answer["ts"]) / _NANOSECONDS if "ts" in answer else 0.0
    window = answer["config"].get("duplicate_window", 0) / _NANOSECONDS
    return Position(answer["state"]["last_seq"], answer["created"], time, window)
