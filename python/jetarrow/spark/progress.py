"""How far a streaming query is, stream by stream: out of what Spark tells of its progress."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jetarrow.spark.sink.progress_file import read_duplicates
from jetarrow.spark.source.offsets import Offset

# The name under which Spark counts.
_OBSERVED = "jetarrow_malformed"

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
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


class Progress(list[StreamProgress]):
    """How far a query is, by stream; and what became of the rows of its last batch.

    Attributes:
        malformed: Rows whose payload could not be decoded, where `count_malformed` counts them; else None.
        duplicates: Rows of which the stream that is written to had a message with their id, so that they were not
            stored; None where it writes elsewhere, and where the driver is on another machine.
    """

    malformed: int | None = None
    duplicates: int | None = None


def count_malformed(frame: DataFrame, *, column: str = "_corrupt_record") -> DataFrame:
    """Have the rows counted whose payload could not be decoded; `progress` tells how many there were.

    Args:
        frame: What was read with `payload=json` and `mode=PERMISSIVE`; filter such rows out behind this.
        column: As the option `columnNameOfCorruptRecord`.

    Returns:
        The same rows.
    """
    from pyspark.sql import functions

    return frame.observe(_OBSERVED, functions.count(functions.col(column)).alias("malformed"))


def progress(query: StreamingQuery | Mapping[str, Any]) -> Progress:
    """Return how far a query was at the end of its last batch, in every stream that it reads.

    Args:
        query: A query, or what `query.lastProgress` or a listener's event gave.

    Returns:
        By stream, sorted; empty before the end of the first batch, and where it reads no streams.
    """
    last: Any = query if isinstance(query, Mapping) else query.lastProgress
    found = Progress()
    if last and "batchId" in last:
        found.duplicates = read_duplicates(str(last["id"]), last["batchId"])
        observed = (last.get("observedMetrics") or {}).get(_OBSERVED)
        found.malformed = None if observed is None else int(observed["malformed"])
    for source in last["sources"] if last else ():
        end = _offset(source["endOffset"])
        if end is not None:
            found += _of_source(end, _offset(source["startOffset"]), _offset(source["latestOffset"]), _seconds(last))
    found.sort(key=lambda one: one.stream)
    return found


def listener(hear: Callable[[str, Progress], object]) -> StreamingQueryListener:
    """Return a listener for `spark.streams.addListener` that tells of every batch of every query that reads streams.

    Args:
        hear: Called with the query's name, or its id where it has none, and what `progress` returns.
    """
    # Workers have no use for it.
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            if found := progress(json.loads(event.progress.json)):
                hear(event.progress.name or str(event.progress.id), found)

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
