"""Lag of consumers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.arrow_table import ArrowTable
from jetarrow.jetstream.errors import NotFoundError
from jetarrow.jetstream.models.values import checked_name

if TYPE_CHECKING:
    pass

# Concurrent requests.
_AT_ONCE = 32


class Lag:
    """The verb `lag` of a manager and a context."""

    _api: JetStreamApi

    async def lag(self, streams: str | Sequence[str] | None = None) -> ArrowTable:
        """The lag of each consumer: a table with a row per consumer, sorted by stream and name (needs pyarrow).

        The table has the attributes of a `pyarrow.Table`, and `to_pyarrow`, `to_polars`, `to_pandas` and `to_duckdb`.

        Columns: `stream: string, consumer: string, kind: string` (pull, push), `filter_subjects: list<string>`,
        `num_pending: int64` (not delivered yet), `num_ack_pending: int64` (delivered, not acknowledged),
        `num_redelivered: int64, num_waiting: int64` (waiting pull requests), `ack_floor: int64` (the stream sequence up
        to which all messages are acknowledged), `last_active: timestamp[us, UTC]` (the last delivery or
        acknowledgement), `paused: bool, behind: duration[us]`: the age of the oldest unprocessed message, 0 if there is
        none, null if it is unknown.

        It makes one request per stream, and one per filter of each consumer with a lag, at most 32 concurrently.

        Args:
            streams: One stream or several; None is every stream.

        Raises:
            NotFoundError: The stream does not exist.
            UnsupportedError: pyarrow is not installed.
            ValueError: A name is invalid.
        """
        pa = needs_pyarrow("lag()")
        api = self._api
        if streams is None:
            named = [name async for name in api.pages("STREAM.NAMES", "streams")]
        else:
            named = [checked_name("stream", name) for name in ([streams] if isinstance(streams, str) else streams)]

        async def listed(stream: str) -> list[models.ConsumerInfo]:
            try:
                pages = api.pages(f"CONSUMER.LIST.{stream}", "consumers")
                return [models.ConsumerInfo.from_response(consumer) async for consumer in pages]
            except NotFoundError:
                if streams is None:
                    # The stream was deleted meanwhile.
                    return []
                raise

        found = [info for some in await api.session.gather(listed, named, _AT_ONCE) for info in some]
        asked = [(info, subject) for info in found if _pending(info) for subject in _filters(info) or [">"]]

        async def oldest(question: tuple[models.ConsumerInfo, str]) -> datetime | None:
            return await _oldest(api, *question)

        times = await api.session.gather(oldest, asked, _AT_ONCE)
        first: dict[tuple[str, str], datetime] = {}
        for (info, _), time in zip(asked, times, strict=True):
            key = (info.stream_name, info.name)
            if time is not None and (key not in first or time < first[key]):
                first[key] = time
        rows = [_row(info, first.get((info.stream_name, info.name))) for info in found]
        rows.sort(key=lambda row: (row["stream"], row["consumer"]))
        return ArrowTable(pa.Table.from_pylist(rows, _schema(pa)))


def _schema(pa: Any) -> Any:
    counts = ("num_pending", "num_ack_pending", "num_redelivered", "num_waiting", "ack_floor")
    return pa.schema(
        [("stream", pa.string()), ("consumer", pa.string()), ("kind", pa.string())]
        + [("filter_subjects", pa.list_(pa.string()))]
        + [(name, pa.int64()) for name in counts]
        + [("last_active", pa.timestamp("us", "UTC")), ("paused", pa.bool_()), ("behind", pa.duration("us"))]
    )


def _filters(info: models.ConsumerInfo) -> list[str]:
    config = info.config
    return list(config.filter_subjects or ([config.filter_subject] if config.filter_subject else []))


def _pending(info: models.ConsumerInfo) -> bool:
    return bool(info.num_pending or info.num_ack_pending)


async def _oldest(api: JetStreamApi, info: models.ConsumerInfo, subject: str) -> datetime | None:
    """Time at which the first message after the ack floor was stored."""
    done = info.ack_floor.stream_seq if info.ack_floor else 0
    query = {"seq": done + 1, "next_by_subj": subject}
    try:
        answer = await api.request(f"STREAM.MSG.GET.{info.stream_name}", query)
    except NotFoundError:
        return None
    return models.RawStreamMsg.from_response({**answer["message"], "data": None}).time


async def behind_of(api: JetStreamApi, info: models.ConsumerInfo) -> timedelta | None:
    """Return the age of a consumer's oldest unprocessed message; 0 if there is none, None if it is unknown.

    Args:
        api: The API.
        info: The consumer.
    """
    if not _pending(info):
        return timedelta(0)
    found = [await _oldest(api, info, subject) for subject in _filters(info) or [">"]]
    times = [time for time in found if time is not None]
    return max((info.ts or datetime.now(UTC)) - min(times), timedelta(0)) if times else None


def _row(info: models.ConsumerInfo, oldest: datetime | None) -> dict[str, object]:
    active = [at.last_active for at in (info.delivered, info.ack_floor) if at and at.last_active]
    behind = timedelta(0) if not _pending(info) else None
    if oldest is not None:
        # Both times are of the server's clock, if the response has `ts`.
        behind = max((info.ts or datetime.now(UTC)) - oldest, timedelta(0))
    return {
        "stream": info.stream_name,
        "consumer": info.name,
        "kind": "push" if info.config.deliver_subject else "pull",
        "filter_subjects": _filters(info),
        "num_pending": info.num_pending or 0,
        "num_ack_pending": info.num_ack_pending or 0,
        "num_redelivered": info.num_redelivered or 0,
        "num_waiting": info.num_waiting or 0,
        "ack_floor": info.ack_floor.stream_seq if info.ack_floor else 0,
        "last_active": max(active) if active else None,
        "paused": bool(info.paused),
        "behind": behind,
    }
