"""Begin and end of a read, from the options of offsets and times."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from .option_texts import OptionTexts, invalid
from .times import check_zone, parse_time

EARLIEST = -2
LATEST = -1


@dataclass(frozen=True)
class Bound:
    """Begin or end of a read.

    Attributes:
        default: EARLIEST or LATEST, for streams that are not named; None if no option is set.
        named: A sequence, EARLIEST or LATEST by stream. Default: none.
        time: Instead of both: the first message at or after this time (RFC 3339). Default: None.
    """

    default: int | None
    named: Mapping[str, int] = field(default_factory=dict)
    time: str | None = None

    def of(self, stream: str, default: int) -> int:
        """Return the position in one stream; `default` if no option is set."""
        if self.default is None:
            return default
        return self.named.get(stream, self.default)


def bounds(options: OptionTexts, streams: tuple[str, ...], *, streaming: bool | None) -> tuple[Bound, Bound]:
    """Return begin and end of a read.

    Args:
        options: The options of the user.
        streams: The streams named in the options; empty if they are selected by a pattern.
        streaming: Whether it is a streaming query; None if it is not known yet.

    Raises:
        ValueError: A value is not valid.
    """
    zone = check_zone(options.text("timeZone"))
    found = []
    for side, default in (("starting", EARLIEST), ("ending", LATEST)):
        offsets = _offsets(options, f"{side}Offsets", default, streams=streams, streaming=streaming)
        text = options.text(f"{side}Timestamp")
        # Timestamps override offsets, which must still be valid.
        found.append(Bound(default, time=parse_time(f"{side}Timestamp", text, zone)) if text else offsets)
    start, end = found
    if streaming and (end.default is not None or end.time is not None):
        name = "endingTimestamp" if end.time is not None else "endingOffsets"
        raise invalid(name, "a streaming query has no end", "leave it out, or trigger(availableNow=True)")
    return start, end


def _offsets(
    options: OptionTexts, name: str, default: int, *, streams: tuple[str, ...], streaming: bool | None
) -> Bound:
    text = options.text(name)
    starts = default == EARLIEST
    # A batch cannot start at the latest offset, and no read can end at the earliest; as in Spark's Kafka source.
    words = {"earliest": EARLIEST} if starts else {}
    if not starts or streaming is not False:
        words["latest"] = LATEST
    example = streams[0] if streams else "ORDERS"
    numbers = " or ".join(f"{number} for {word}" for word, number in words.items())
    valid = f'{", ".join(words)}, or JSON such as {{"{example}": 100}} (a sequence, {numbers})'
    if text is None:
        return Bound(None)
    if text.lower() in words:
        return Bound(words[text.lower()])
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise invalid(name, f"{text!r} cannot be used", valid)
    for stream, sequence in given.items():
        if streams and stream not in streams:
            raise invalid(name, f"{stream!r} is not in option 'stream'", f"one of {', '.join(streams)}")
        if isinstance(sequence, bool) or not isinstance(sequence, int):
            raise invalid(name, f"{sequence!r} of {stream!r} is not a sequence", valid)
        if sequence not in words.values() and not 1 <= sequence < 2**63:
            raise invalid(name, f"{sequence} of {stream!r} cannot be used (sequences begin with 1)", valid)
    return Bound(default, named=given)
