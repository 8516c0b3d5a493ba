"""Progress of a streaming query by stream, computed from the progress that Spark reports."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jetarrow.spark.sink.progress_file import read_duplicates
from jetarrow.spark.source.offsets import Offset

# Name of the observed metric in Spark.
_OBSERVED = "jetarrow_malformed"

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import StreamingQueryListener
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True)
class StreamProgress:
    """Progress of a query in one stream.

    Attributes:
        stream: Name of the stream.
        offset: The next sequence that the query reads.
        latest: The sequence after the last matching message, when the query last checked; before Spark 4.2 the end of
            the batch. None if Spark does not report it.
        lag: Sequences between the two: the maximum number of pending messages, because some sequences may be deleted.
            None if `latest` is None.
        rate: Sequences per second of the last batch.
    """

    stream: str
    offset: int
    latest: int | None
    lag: int | None
    rate: float


class Progress(list[StreamProgress]):
    """Progress of a query by stream, and counts of the rows of its last batch.

    Attributes:
        malformed: Number of rows whose payload could not be decoded; None without `count_malformed`.
        duplicates: Number of rows that the target stream did not store because it had their message ids; None if the
            query does not write to a stream, or if the driver is on another machine.
    """

    malformed: int | None = None
    duplicates: int | None = None


def count_malformed(frame: DataFrame, *, column: str = "_corrupt_record") -> DataFrame:
    """Count the rows whose payload could not be decoded; `progress` returns the number.

    Args:
        frame: A DataFrame read with `payload=json` and `mode=PERMISSIVE`; filter such rows after this.
        column: As the option `columnNameOfCorruptRecord`.

    Returns:
        The same rows.
    """
    from pyspark.sql import functions

    return frame.observe(_OBSERVED, functions.count(functions.col(column)).alias("malformed"))


def progress(query: StreamingQuery | Mapping[str, Any]) -> Progress:
    """Return the progress of a query at the end of its last batch, for every stream that it reads.

    Args:
        query: A query, or the value of `query.lastProgress` or of a listener's event.

    Returns:
        The progress by stream, sorted; empty before the end of the first batch, and if the query reads no streams.
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
    """Return a listener for `spark.streams.addListener` that reports every batch of every query that reads streams.

    Args:
        hear: Called with the query's name, or its id if it has none, and the result of `progress`.
    """
    # Imported here, because workers do not need it.
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
    # The end offset contains the begin of its batch; Spark's start offset differs in the first batch of a query.
    begin = end.start or (start.streams if start is not None else {})
    found = []
    for name, entry in end.streams.items():
        read = entry.next - begin[name].next if name in begin else 0
        last = latest.streams[name].next if latest is not None and name in latest.streams else None
        lag = None if last is None else max(0, last - entry.next)
        found.append(StreamProgress(name, entry.next, last, lag, max(0, read) / seconds if seconds else 0.0))
    return found


def _offset(given: Any) -> Offset | None:
    """Return an offset of this source; None for an offset of another source, or none."""
    try:
        return Offset.of(_parsed(given) if isinstance(given, str) else given)
    except (ValueError, SyntaxError):
        return None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        # Spark 4.0 has the text of a Python dict in `lastProgress` and `recentProgress`.
        return ast.literal_eval(text)


def _seconds(last: Mapping[str, Any]) -> float:
    return float((last.get("durationMs") or {}).get("triggerExecution", 0)) / 1000
