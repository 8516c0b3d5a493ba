"""Message ids of a stream, read from its messages, because the server does not list its duplicate window."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

import jetarrow.sync
from jetarrow.spark._core import Loss, RangeReader
from jetarrow.spark.connection import retry_transient


class SeenIds:
    """The ids of messages stored since the begin of the duplicate window before its creation.

    Args:
        js: The context.
        stream: Name of the stream.
        window: Duplicate window in seconds.
    """

    def __init__(self, js: jetarrow.sync.JetStream, stream: str, *, window: float) -> None:
        self._js, self._stream = js, stream
        state = retry_transient(lambda: js.stream_info(stream)).state
        # By the server's clock. An empty stream has no last message.
        since = state.last_ts - timedelta(seconds=window) if state.messages and state.last_ts else None
        self._start = {"start_seq": state.last_seq + 1} if since is None else {"start_time": since}

    def of(self, wanted: pa.Array) -> pa.Array:
        """Return the given ids that the stream has now.

        Args:
            wanted: The ids.
        """
        found = [pa.array([], pa.string())]
        reader = retry_transient(lambda: RangeReader(self._js, self._stream, columns=["headers"], **self._start))
        try:
            while (item := reader.next()) is not None:
                if not isinstance(item, Loss):  # removed messages have no ids
                    ids = message_ids(pa.record_batch(item).column("headers"))
                    found.append(ids.filter(pc.is_in(ids, value_set=wanted)))
        finally:
            reader.close()
        return pc.unique(pa.concat_arrays(found))


def message_ids(headers: pa.Array) -> pa.Array:
    """Return the message ids of a column of headers; a message has one at most.

    Args:
        headers: A column of `js.read`.
    """
    # The entries of the maps; their values are lists of strings.
    ours = pc.equal(headers.keys, "Nats-Msg-Id")
    return pc.list_flatten(headers.items.filter(ours)).cast(pa.string())
