"""Conversion of the server's advisories to rows of dead letters."""

from __future__ import annotations

from typing import Any

from jetarrow.jetstream.models.values import epoch_ns

ADVISORY_SUBJECT = "$JS.EVENT.ADVISORY.CONSUMER"
"""First tokens of the subjects, before the kind, the stream and the consumer."""

KINDS = {"MAX_DELIVERIES": "max_deliver", "MSG_TERMINATED": "terminated"}
"""Kinds of rows by the token of an advisory's subject."""

ADVISORY_SCHEMA = {"consumer": str, "stream_seq": int, "deliveries": int, "reason": str, "timestamp": str}
"""Decoded fields of an advisory."""

# Range of Arrow's timestamp[ns].
_MIN_TIME, _MAX_TIME = -(2**63), 2**63 - 1


def row_of(stream: str, subject: str, value: dict[str, Any] | None, error: str | None) -> dict[str, Any]:
    """Checks one stored advisory and converts it.

    Args:
        stream: The stream of the message.
        subject: The advisory's subject.
        value: Its decoded payload; None if it is not a JSON object.
        error: The decoder's error; None if there is none.

    Returns:
        The columns of a row, without those of the message.

    Raises:
        ValueError: It is not an advisory of a dead letter; the text has the defect.
    """
    if error is not None or value is None:
        raise ValueError(error or "the payload is null")
    kind = KINDS.get(_token(subject, 4))
    if kind is None:
        raise ValueError(f"subject {subject!r} names neither {' nor '.join(KINDS)}")
    seq, deliveries, consumer = value["stream_seq"], value["deliveries"], value["consumer"]
    if not consumer:
        raise ValueError("consumer is missing")
    if seq is None or seq < 1:
        raise ValueError("stream_seq is missing" if seq is None else f"stream_seq is {seq}")
    if deliveries is not None and deliveries < 0:
        raise ValueError(f"deliveries is {deliveries}")
    return {
        "consumer": consumer,
        "kind": kind,
        "reason": value["reason"],
        "deliveries": deliveries,
        "died": _time(value["timestamp"]),
        "stream": stream,
        "seq": seq,
    }


def _token(subject: str, number: int) -> str:
    tokens = subject.split(".")
    return tokens[number] if len(tokens) > number else ""


def _time(text: str | None) -> int:
    if text is None:
        raise ValueError("timestamp is missing")
    # Without an offset, Python would use this machine's time zone.
    if not (text.endswith("Z") or text[-6:-5] in ("+", "-")):
        raise ValueError(f"timestamp {text!r} has no time zone")
    try:
        time = epoch_ns(text)
    except (ValueError, OverflowError):
        raise ValueError(f"timestamp {text!r} is not in RFC 3339") from None
    if not _MIN_TIME <= time <= _MAX_TIME:
        raise ValueError(f"timestamp {text!r} is beyond Arrow's timestamp[ns]")
    return time
