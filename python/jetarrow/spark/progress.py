"""How far a streaming query is, stream by stream: out of what Spark tells of its progress."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jetarrow.spark.source.offsets import Offset

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryListener
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True)
class StreamProgress:
    """How far a query is in one stream.

    Attributes:
        stream: Name of the stream.
        offset: The next sequence that the query reads.
        latest: The sequence after the last message that the query waits for, when it last looked; None where Spark does
            not say it (before 4.2).
        lag: Sequences between the two: so many messages wait at most, as some may be deleted. None as `latest`.
        rate: Sequences per second in the last batch.
    """

    stream: str
    offset: int
    latest: int | None
    lag: int | None
    rate: float


def progress(query: StreamingQuery | Mapping[str, Any]) -> list[StreamProgress]:
    """Return how far a query was at the end of its last batch, in every stream that it reads.

    Args:
        query: A query, or what `query.lastProgress` or a listener's event gave.

    Returns:
        By stream, sorted; empty before the end of the first batch, and where it reads no streams.
    """
    last: Any = query if isinstance(query, Mapping) else query.lastProgress
    found: list[StreamProgress] = []
    for source in last["sources"] if last else ():
        end = _offset(source["endOffset"])
        if end is not None:
            found += _of_source(end, _offset(source["startOffset"]), _offset(source["latestOffset"]), _seconds(last))
    return sorted(found, key=lambda one: one.stream)


def listener(told: Callable[[str, list[StreamProgress]], object]) -> StreamingQueryListener:
    """Return a listener for `spark.streams.addListener` that tells of every batch of every query that reads streams.

    Args:
        told: Called with the query's name, or its id where it has none, and what `progress` returns.
    """
    # Workers have no use for it.
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            if found := progress(json.loads(event.progress.json)):
                told(event.progress.name or str(event.progress.id), found)

        def onQueryIdle(self, event: Any) -> None:
            pass

        def onQueryTerminated(self, event: Any) -> None:
            pass

    return Listener()


def _of_source(end: Offset, start: Offset | None, latest: Offset | None, seconds: float) -> list[StreamProgress]:
    # The end of a batch knows where it begins; Spark's start is another one in the first batch of a query.
    begin = end.start or (start.streams if start is not None else {})
    found = []
    for name, entry in end.streams.items():
        read = entry.next - begin[name].next if name in begin else 0
        last = latest.streams[name].next if latest is not None and name in latest.streams else None
        lag = None if last is None else max(0, last - entry.next)
        found.append(StreamProgress(name, entry.next, last, lag, max(0, read) / seconds if seconds else 0.0))
    return found


def _offset(given: Any) -> Offset | None:
    """An offset of ours, None where it is another source's, or there is none."""
    try:
        return Offset.of(json.loads(given) if isinstance(given, str) else given)
    except ValueError:
        return None


def _seconds(last: Mapping[str, Any]) -> float:
    return float((last.get("durationMs") or {}).get("triggerExecution", 0)) / 1000
