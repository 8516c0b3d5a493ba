"""Human units, in and out: sizes, spans, times, counts."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import typer

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(b?)", re.IGNORECASE)
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def size(text: str) -> int:
    """Bytes: `64MiB`, `1.5GB`, `10k` (1024, as the nats tool has it), `4096`; `unlimited` and `-1` are -1.

    Args:
        text: What was typed.

    Raises:
        BadParameter: It is no size.
    """
    if text in ("-1", "unlimited"):
        return -1
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no size: write 64MiB, 1.5GB or a number of bytes.")
    number, prefix, binary, unit = found.groups()
    base = 1000 if unit and not binary else 1024
    return int(float(number) * base ** " kmgt".index(prefix.lower() or " "))


def span(text: str) -> float:
    """Seconds: `90s`, `1h30m`, `2d`, `250ms`, or a number of seconds.

    Args:
        text: What was typed.

    Raises:
        BadParameter: It is no span.
    """
    text = text.strip()
    parts = _SPAN.findall(text)
    if parts and "".join(map("".join, parts)) == text:
        return float(sum(float(number) * _SECONDS[unit] for number, unit in parts))
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no span of time: write 90s, 1h30m or 2d.") from None


def moment(text: str) -> datetime:
    """A time: `2026-11-21T10:00` (local without a zone), `2026-11-21`, or a span such as `1h`, which is so long ago.

    Args:
        text: What was typed.

    Raises:
        BadParameter: It is no time.
    """
    if _SPAN.match(text.strip()):
        return datetime.now(UTC) - timedelta(seconds=span(text))
    try:
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time: write 2026-11-21T10:00, or a span such as 1h.") from None


def future(text: str) -> datetime:
    """As `moment`, where a span is so long from now.

    Args:
        text: What was typed.

    Raises:
        BadParameter: It is no time.
    """
    if _SPAN.match(text.strip()):
        return datetime.now(UTC) + timedelta(seconds=span(text))
    return moment(text)


def show_size(count: float | None) -> str:
    """As `1.5 MiB`; a limit that is none is `unlimited`."""
    if count is None or count < 0:
        return "unlimited"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def show_count(count: float | None) -> str:
    """As `1,234`; nothing where it is not known."""
    return "" if count is None else f"{count:,.0f}"


def show_span(seconds: float | None) -> str:
    """As `1h 30m`, its two largest parts; nothing where there is none."""
    if not seconds or seconds < 0:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}".rstrip("0").rstrip(".") + "s"
    parts, left = [], round(seconds)
    for unit in ("d", "h", "m", "s"):
        number, left = divmod(left, int(_SECONDS[unit]))
        if number:
            parts.append(f"{number}{unit}")
    return " ".join(parts[:2])


def show_time(when: datetime | str | None) -> str:
    """In local time, to the second; nothing where there is none (servers say the year 1)."""
    if when is None or when == "":
        return ""
    if isinstance(when, str):
        when = datetime.fromisoformat(when)
    return "" if when.year <= 1 else when.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def plain_time(when: datetime | None) -> str | None:
    """For `--json`: RFC 3339 in UTC; null where there is none."""
    if when is None or when.year <= 1:
        return None
    return when.astimezone(UTC).isoformat().replace("+00:00", "Z")
