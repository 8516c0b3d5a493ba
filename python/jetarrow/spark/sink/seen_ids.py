"""Which message ids a stream has: the server does not say which it knows, but keeps them with the messages."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

import jetarrow.sync
from jetarrow.spark._core import Loss, RangeReader
from jetarrow.spark.connection import retry_transient


class SeenIds:
    """The ids of the messages that came within the duplicate window before it was made, or later.

    Args:
        js: Where the stream is.
        stream: Its name.
        window: Seconds for which the server remembers ids, at most.
    """

    def __init__(self, js: jetarrow.sync.JetStream, stream: str, *, window: float) -> None:
        self._js, self._stream = js, stream
        state = retry_transient(lambda: js.stream_info(stream)).state
        # By the server's clock, which may not be ours. An empty stream has no last message.
        since = state.last_ts - timedelta(seconds=window) if state.messages and state.last_ts else None
        self._start = {"start_seq": state.last_seq + 1} if since is None else {"start_time": since}

    def of(self, wanted: pa.Array) -> pa.Array:
        """Return those of some ids that the stream has now.

        Args:
            wanted: The ids.
        """
        found = [pa.array([], pa.string())]
        reader = retry_transient(lambda: RangeReader(self._js, self._stream, columns=["headers"], **self._start))
        try:
            while (item := reader.next()) is not None:
                if not isinstance(item, Loss):  # what has gone is not there
                    ids = message_ids(pa.record_batch(item).column("headers"))
                    found.append(ids.filter(pc.is_in(ids, value_set=wanted)))
        finally:
            reader.close()
        return pc.unique(pa.concat_arrays(found))


def message_ids(headers: pa.Array) -> pa.Array:
    """Return the message ids of a column of headers; a message has one at most.

    Args:
        headers: As `js.read` makes it.
    """
    # Of a map the entries, their values lists of strings.
    ours = pc.equal(headers.keys, "Nats-Msg-Id")
    return pc.list_flatten(headers.items.filter(ours)).cast(pa.string())
