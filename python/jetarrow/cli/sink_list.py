"""List of the sinks of a stream: archives in folders, and durable consumers that sinks have created."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from jetarrow.core.errors import Error
from jetarrow.core.session import run_to_completion
from jetarrow.jetstream.errors import NotFoundError
from jetarrow.jetstream.lag import behind_of
from jetarrow.jetstream.sinks.archives import Archive, find_archives
from jetarrow.jetstream.sinks.durable import OWNER
from jetarrow.jetstream.sinks.lag import Start, count_lag, oldest_age

if TYPE_CHECKING:
    from jetarrow.sync import JetStream

KEYS = "stream target format position lag behind durable subjects writer problem"


def is_place(text: str) -> bool:
    """Return whether an argument is a folder or a URI, and not the name of a stream."""
    return "://" in text or "/" in text or os.sep in text or text in (".", "..") or os.path.isdir(text)


def sink_rows(js: JetStream, places: Sequence[str], streams: Sequence[str], *, durables: bool) -> list[dict[str, Any]]:
    """Return a row per sink, sorted by stream and target.

    Args:
        js: A blocking context.
        places: Folders and URIs that are searched for archives.
        streams: Names of the streams whose sinks are listed; empty for all.
        durables: Whether durable consumers of sinks outside of these places are listed.
    """
    rows = [_archived(js, archive) for place in places for archive in find_archives(place)]
    if streams:
        rows = [row for row in rows if row["stream"] in streams]
    known = {(row["stream"], row["durable"]) for row in rows}
    if durables:
        rows += [row for row in _durable(js, streams) if (row["stream"], row["durable"]) not in known]
    return sorted(rows, key=lambda row: (row["stream"] or "", row["target"] or ""))


def _archived(js: JetStream, archive: Archive) -> dict[str, Any]:
    state = archive.state
    row: dict[str, Any] = dict.fromkeys(KEYS.split())
    row |= {"target": archive.target, "format": archive.format, "writer": archive.writer, "problem": archive.problem}
    if state is None:
        return row
    start = Start(subjects=state.subjects, durable=state.durable)
    row |= {"stream": state.stream, "position": state.last_seq, "durable": state.durable}
    row["subjects"] = list(state.subjects)
    api = js._inner._api
    try:
        row["lag"] = run_to_completion(count_lag(api, state.stream, start, state))
        if row["lag"] and state.durable is None:
            row["behind"] = run_to_completion(oldest_age(api, state.stream, state.last_seq, state.subjects))
        else:
            row["behind"] = timedelta(0) if not row["lag"] else _behind(js, state.stream, state.durable or "")
    except Error as error:
        row["problem"] = str(error).removeprefix("nats: ")
    return row


def _behind(js: JetStream, stream: str, durable: str) -> timedelta | None:
    return run_to_completion(behind_of(js._inner._api, js.consumer_info(stream, durable)))


def _durable(js: JetStream, streams: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the sinks whose durable consumer names its archive."""
    for info in js.streams():
        name = info.config.name or ""
        if (streams and name not in streams) or not info.state.consumer_count:
            continue
        try:
            consumers = list(js.stream(name).consumers())
        except NotFoundError:
            continue  # deleted meanwhile
        for consumer in consumers:
            target = (consumer.config.metadata or {}).get(OWNER)
            if target is not None:
                yield {
                    **dict.fromkeys(KEYS.split()),
                    "stream": name,
                    "target": target,
                    "position": consumer.ack_floor.stream_seq if consumer.ack_floor else 0,
                    "lag": (consumer.num_pending or 0) + (consumer.num_ack_pending or 0),
                    "behind": run_to_completion(behind_of(js._inner._api, consumer)),
                    "durable": consumer.name,
                    "subjects": consumer.config.filter_subjects or [],
                }
