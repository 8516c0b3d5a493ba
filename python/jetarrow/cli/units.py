"""Sizes, durations, times and counts as people write and read them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import typer

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(b?)", re.IGNORECASE)
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def size(text: str) -> int:
    """Parses a size: `64MiB`, `1.5GB`, `10k` (1,024 bytes, as in the nats tool), `4096`; `unlimited` and `-1` are -1.

    Args:
        text: The option's value.

    Raises:
        BadParameter: The text is not a size.
    """
    if text in ("-1", "unlimited"):
        return -1
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is not a size: write 64MiB, 1.5GB or a number of bytes.")
    number, prefix, binary, unit = found.groups()
    base = 1000 if unit and not binary else 1024
    return int(float(number) * base ** " kmgt".index(prefix.lower() or " "))


def span(text: str) -> float:
    """Parses a duration into seconds: `90s`, `1h30m`, `2d`, `250ms`, or a number of seconds.

    Args:
        text: The option's value.

    Raises:
        BadParameter: The text is not a duration.
    """
    text = text.strip()
    parts = _SPAN.findall(text)
    if parts and "".join(map("".join, parts)) == text:
        return float(sum(float(number) * _SECONDS[unit] for number, unit in parts))
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a duration: write 90s, 1h30m or 2d.") from None


def moment(text: str) -> datetime:
    """Parses a time: `2026-11-21T10:00` (local time if it has no zone), `2026-11-21`, or a duration before now (`1h`).

    Args:
        text: The option's value.

    Raises:
        BadParameter: The text is not a time.
    """
    if _SPAN.match(text.strip()):
        return datetime.now(UTC) - timedelta(seconds=span(text))
    try:
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a time: write 2026-11-21T10:00, or a duration such as 1h.") from None


def future(text: str) -> datetime:
    """Parses a time as `moment`, but a duration counts from now into the future.

    Args:
        text: The option's value.

    Raises:
        BadParameter: The text is not a time.
    """
    if _SPAN.match(text.strip()):
        return datetime.now(UTC) + timedelta(seconds=span(text))
    return moment(text)


def show_size(count: float | None) -> str:
    """As `1.5 MiB`; None and negative numbers are `unlimited`."""
    if count is None or count < 0:
        return "unlimited"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def show_count(count: float | None) -> str:
    """As `1,234`; empty if the count is None."""
    return "" if count is None else f"{count:,.0f}"


def show_server(name: str) -> str:
    """As `NBYIYRJW…` if the name is the id of a server, which has 56 characters; other names unchanged."""
    return f"{name[:8]}…" if len(name) == 56 and name.startswith("N") else name


def show_rate(per_second: float) -> str:
    """As `1,234`: messages per second."""
    return f"{per_second:,.0f}"


def show_change(per_second: float) -> str:
    """As `+1.5 MiB` or `-20 B`: change of a size per second; `0 B` without one."""
    sign = "" if abs(per_second) < 0.5 else "-" if per_second < 0 else "+"
    return f"{sign}{show_size(abs(per_second))}"


def counted(count: int, noun: str) -> str:
    """As `1 row` or `4,000 rows`.

    Args:
        count: The number.
        noun: The singular; its plural ends in `s`.
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def show_span(seconds: float | None) -> str:
    """As `1h 30m`, the two largest units; empty if there is no duration."""
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


def show_behind(behind: timedelta | None) -> str:
    """As `1h 30m`, `0s` for none; empty if it is unknown."""
    return "" if behind is None else show_span(behind.total_seconds()) or "0s"


def show_time(when: datetime | str | None) -> str:
    """As local time in seconds; empty for None and for year 1, which servers send for an unset time."""
    if when is None or when == "":
        return ""
    if isinstance(when, str):
        when = datetime.fromisoformat(when)
    return "" if when.year <= 1 else when.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def show_utc(when: datetime) -> str:
    """As `2026-11-22 10:00 UTC`, with seconds unless they are zero."""
    utc = when.astimezone(UTC)
    return f"{utc:%Y-%m-%d %H:%M:%S} UTC" if utc.second else f"{utc:%Y-%m-%d %H:%M} UTC"


def plain_time(when: datetime | None) -> str | None:
    """As RFC 3339 in UTC for `--json`; None (null) if there is no time."""
    if when is None or when.year <= 1:
        return None
    return when.astimezone(UTC).isoformat().replace("+00:00", "Z")
