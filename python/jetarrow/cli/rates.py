"""Rates of streams and lag of consumers, from two samples of the server's state."""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jetarrow.cli.stream import row

if TYPE_CHECKING:
    from jetarrow.sync import JetStream

# Names of the consumers that reads and sinks create. A killed process leaves one, which the server removes after 30 s.
_TEMPORARY = re.compile(r"jetarrow-(lag-)?[A-Za-z0-9]{22}")


def is_temporary(consumer: str) -> bool:
    """Return whether a consumer of this name belongs to a read or a sink, which may have ended."""
    return _TEMPORARY.fullmatch(consumer) is not None


@dataclass
class Sample:
    """State of the server at one time: streams by name, consumers by stream and name."""

    at: float = field(default_factory=time.monotonic)
    streams: dict[str, dict[str, Any]] = field(default_factory=dict)
    consumers: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)


def take_sample(js: JetStream) -> Sample:
    """Return the state of all streams and consumers."""
    from jetarrow.js.errors import NotFoundError

    sample = Sample()
    for info in js.streams():
        config, state = info.config, info.state
        name = config.name or ""
        sample.streams[name] = {**row(info), "max_bytes": config.max_bytes if (config.max_bytes or -1) > 0 else None}
        if not state.consumer_count:
            continue
        # The stream may have been deleted in the meantime.
        with contextlib.suppress(NotFoundError):
            for consumer in js.stream(name).consumers():
                sample.consumers[name, consumer.name] = {
                    "pending": consumer.num_pending or 0,
                    "ack_pending": consumer.num_ack_pending or 0,
                    "redelivered": consumer.num_redelivered or 0,
                    "delivered": consumer.delivered.consumer_seq if consumer.delivered else 0,
                }
    return sample


def rates_of(before: Sample, after: Sample) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return rates of streams and consumers: streams by rate, consumers by lag, the largest first."""
    seconds = max(after.at - before.at, 1e-9)

    def rate(now: int, was: int | None) -> float:
        # No rate after a counter was reset, as by recreating a stream.
        return 0.0 if was is None or now < was else (now - was) / seconds

    consumers = []
    for (stream, name), now in after.consumers.items():
        was = before.consumers.get((stream, name), {})
        speed = rate(now["delivered"], was.get("delivered"))
        shown = {key: now[key] for key in ("pending", "ack_pending", "redelivered")}
        left = now["pending"] / speed if speed else None
        consumers.append({"stream": stream, "consumer": name, "out_per_second": speed, **shown, "seconds_left": left})
    streams = []
    for name, now in after.streams.items():
        was = before.streams.get(name, {})
        streams.append(
            {
                "stream": name,
                "messages": now["messages"],
                "bytes": now["bytes"],
                "max_bytes": now["max_bytes"],
                "storage": now["storage"],
                "in_per_second": rate(now["last_seq"], was.get("last_seq")),
                "out_per_second": sum(one["out_per_second"] for one in consumers if one["stream"] == name),
                # Negative while a stream shrinks.
                "bytes_per_second": (now["bytes"] - was.get("bytes", now["bytes"])) / seconds,
                "lag": max(
                    (
                        one["pending"]
                        for one in consumers
                        if one["stream"] == name and not is_temporary(one["consumer"])
                    ),
                    default=None,
                ),
            }
        )
    streams.sort(key=lambda one: (-float(one["in_per_second"] + one["out_per_second"]), one["stream"]))
    consumers.sort(key=lambda one: (-one["pending"], one["stream"], one["consumer"]))
    return streams, consumers
