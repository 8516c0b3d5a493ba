"""Parsing of times in options."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from .option_texts import invalid

VALID = "ISO 8601 such as 2026-01-31T12:00:00Z (a date alone is its midnight), or milliseconds since 1970"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?)?\s*(Z|[+-]\d\d(?::?\d\d)?)?", re.IGNORECASE
)
_OFFSET = re.compile(r"(?:GMT|UTC)?([+-])(\d{1,2}):?(\d\d)?", re.IGNORECASE)


def parse_time(option: str, text: str, zone: str | None) -> str:
    """Return a time as RFC 3339 in UTC, to the nanosecond.

    Args:
        option: Name of the option, for errors.
        text: ISO 8601, or milliseconds since 1970.
        zone: Time zone of times without a zone (option `timeZone`); None rejects them, because a Python source cannot
            read the session's time zone.

    Raises:
        ValueError: The text is not a time, or has no zone and `zone` is None.
    """
    if re.fullmatch(r"\d{1,16}", text):
        seconds, milliseconds = divmod(int(text), 1000)
        try:
            when = _EPOCH + timedelta(seconds=seconds)
        except OverflowError:
            raise invalid(option, "the time is out of range", VALID) from None
        return _rfc3339(option, when, milliseconds * 1_000_000)
    found = _ISO.fullmatch(text)
    if found is None:
        raise invalid(option, f"{text!r} is not a time", VALID)
    day, clock, fraction, offset = found.groups()
    try:
        when = datetime.fromisoformat(f"{day}T{clock or '00:00'}")
    except ValueError:
        raise invalid(option, f"{text!r} is not a time", VALID) from None
    if offset is None and zone is None:
        raise invalid(
            option,
            f"{text!r} has no time zone, and a Python source cannot read that of the session",
            'a time that ends in Z or +01:00, or option timeZone=spark.conf.get("spark.sql.session.timeZone")',
        )
    when = when.replace(tzinfo=_zone(option if offset else "timeZone", offset or zone or ""))
    return _rfc3339(option, when, int((fraction or "").ljust(9, "0")))


def check_zone(zone: str | None) -> str | None:
    """Return the name of a time zone if it exists.

    Raises:
        ValueError: It does not exist.
    """
    if zone is not None:
        _zone("timeZone", zone)
    return zone


def _zone(option: str, text: str) -> tzinfo:
    if text.upper() in ("Z", "UTC", "GMT"):
        return UTC
    if found := _OFFSET.fullmatch(text):
        sign, hours, minutes = found.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        if offset <= timedelta(hours=18):
            return timezone(-offset if sign == "-" else offset)
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise invalid(option, f"{text!r} is not a time zone", "such as UTC, Europe/Berlin or +01:00") from None


def _rfc3339(option: str, when: datetime, nanoseconds: int) -> str:
    try:
        utc = when.astimezone(UTC)
    except OverflowError:
        raise invalid(option, "the time is out of range", VALID) from None
    # Not strftime, which writes years before 1000 with fewer than four digits.
    return f"{utc.replace(tzinfo=None, microsecond=0).isoformat()}.{nanoseconds:09d}Z"
