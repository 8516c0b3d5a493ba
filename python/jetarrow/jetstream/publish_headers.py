"""Headers of a publish that JetStream reads, made from keywords: expectations, time to live, rollup, schedules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from jetarrow.core.arguments import check_whole
from jetarrow.core.session import Headers
from jetarrow.core.suggestions import check_keywords
from jetarrow.jetstream.literals import NeverExpires, Rollup, ScheduleRollup, check_literal
from jetarrow.jetstream.models.constants import Header
from jetarrow.jetstream.models.values import to_rfc3339
from jetarrow.jetstream.server_features import require_version

if TYPE_CHECKING:
    from jetarrow.jetstream.api import JetStreamApi

TimeToLive: TypeAlias = float | timedelta | NeverExpires


class PublishExtras(TypedDict, total=False):
    """Rarely used keywords of a publish."""

    expected_last_subject_seq_subject: str | None
    """The subject of `expected_last_subject_seq`, wildcards allowed (server 2.11); default the message's subject."""
    rollup: Rollup | None
    """"sub": it replaces all earlier messages of its subject; "all": all messages of the stream. The stream must have
    `allow_rollup_hdrs`. Default: it replaces none."""
    schedule: str | datetime | timedelta | None
    """The time or the interval of publishing the message to `schedule_target`: a datetime, a timedelta, or the
    server's text
    ("@at …" and, from server 2.14 on, "@every 5m", "@hourly", a cron line with seconds first). The stream must have
    `allow_msg_schedules` (server 2.12). A subject has one schedule, the last; purging the subject ends it."""
    schedule_target: str | None
    """The subject that the schedule publishes to: another subject of the same stream."""
    schedule_source: str | None
    """Instead of this payload the schedule publishes the last message of this subject (server 2.14)."""
    schedule_ttl: TimeToLive | None
    """Time to live of the messages that the schedule publishes, as `msg_ttl`."""
    schedule_time_zone: str | None
    """The time zone of a cron line, such as "Europe/Berlin" (server 2.14); default UTC."""
    schedule_rollup: ScheduleRollup | None
    """"sub": a message of the schedule replaces the ones that it published before (server 2.14)."""


def ttl_text(value: TimeToLive, name: str = "msg_ttl") -> str:
    """Formats a time to live for the server: whole seconds, at least one, or "never" (ADR-43)."""
    if isinstance(value, str):
        if value != "never":
            raise ValueError(f'{name} must be seconds, a timedelta or "never", not {value!r}')
        return value
    if not isinstance(value, timedelta | Real):
        raise TypeError(f'{name} must be seconds, a timedelta or "never", not {type(value).__name__}')
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if not seconds >= 1 or seconds == float("inf"):
        raise ValueError(f"{name} must be at least 1 second, not {value}")
    return str(int(seconds))


def _schedule_text(value: str | datetime | timedelta) -> str:
    """Formats a schedule for the server (ADR-51)."""
    if isinstance(value, datetime):
        return f"@at {to_rfc3339(value)}"
    if isinstance(value, timedelta):
        if value < timedelta(seconds=1):
            raise ValueError(f"schedule must be an interval of at least 1 second, not {value}")
        return f"@every {value.total_seconds():.6f}".rstrip("0").rstrip(".") + "s"
    return value


# The other keywords of `publish`, for suggestions.
PUBLISH_KEYWORDS = (
    "subject",
    "payload",
    "timeout",
    "stream",
    "headers",
    "msg_ttl",
    "msg_id",
    "expected_stream",
    "expected_last_seq",
    "expected_last_subject_seq",
    "expected_last_msg_id",
)


def _extra_headers(api: JetStreamApi, extras: PublishExtras) -> dict[str, str]:
    """The headers of the keywords in `PublishExtras`."""
    given: dict[str, Any] = {name: value for name, value in extras.items() if value is not None}
    if unknown := given.keys() - PublishExtras.__annotations__.keys():
        check_keywords("publish", unknown, PublishExtras.__annotations__, PUBLISH_KEYWORDS)
    result: dict[str, str] = {}
    if (subject := given.get("expected_last_subject_seq_subject")) is not None:
        require_version(api, "expected_last_subject_seq_subject", (2, 11))
        result[Header.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT] = subject
    if (rollup := given.get("rollup")) is not None:
        check_literal("rollup", rollup, Rollup)
        result[Header.ROLLUP] = rollup
    if (schedule := given.get("schedule")) is not None:
        text = _schedule_text(schedule)
        require_version(api, f"schedule={text!r}", (2, 12) if text.startswith("@at ") else (2, 14))
        result[Header.SCHEDULE] = text
    elif any(name.startswith("schedule") for name in given):
        raise ValueError(
            "schedule is missing, but another schedule_ option is set: set schedule to a time or an interval"
        )
    for name, header in _SCHEDULE.items():
        if (value := given.get(name)) is not None:
            require_version(api, name, (2, 12) if name == "schedule_target" else (2, 14))
            result[header] = value
    if (ttl := given.get("schedule_ttl")) is not None:
        result[Header.SCHEDULE_TTL] = ttl_text(ttl, "schedule_ttl")
    return result


_SCHEDULE = {
    "schedule_target": Header.SCHEDULE_TARGET,
    "schedule_source": Header.SCHEDULE_SOURCE,
    "schedule_time_zone": Header.SCHEDULE_TIME_ZONE,
    "schedule_rollup": Header.SCHEDULE_ROLLUP,
}


def publish_headers(
    api: JetStreamApi,
    headers: Headers | None,
    stream: str | None,
    last_seq: int | None,
    last_subject_seq: int | None,
    last_msg_id: str | None,
    ttl: TimeToLive | None,
    extras: PublishExtras | None = None,
) -> Headers | None:
    """The headers of a message with those of its expectations, in a new mapping.

    Raises:
        ValueError: A value is invalid.
        TypeError: A keyword is unknown.
        UnsupportedError: The server is too old.
    """
    check_whole(expected_last_seq=last_seq, expected_last_subject_seq=last_subject_seq)
    expected = {
        Header.EXPECTED_STREAM.value: stream,
        Header.EXPECTED_LAST_SEQUENCE.value: last_seq,
        Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: last_subject_seq,
        Header.EXPECTED_LAST_MSG_ID.value: last_msg_id,
    }
    result = {**(headers or {}), **{name: str(value) for name, value in expected.items() if value is not None}}
    if ttl is not None:
        require_version(api, "msg_ttl", (2, 11))
        result[Header.MSG_TTL.value] = ttl_text(ttl)
    if extras:
        result.update(_extra_headers(api, extras))
    return result


# The expectations of most messages: none.
NO_EXPECTATIONS = (None, None, None, None, None)


def _is_scalar(value: object) -> bool:
    """Whether it is one value for all rows, not one per row."""
    return value is None or isinstance(value, str | int | float | timedelta)


def _per_row(name: str, value: Any, rows: int) -> list[Any]:
    """One value per row."""
    if _is_scalar(value):
        return [value] * rows
    if not isinstance(value, Iterable):
        raise TypeError(f"{name} must be one value or one per row, not {type(value).__name__}")
    # An array of pyarrow yields scalars.
    found = [item.as_py() if hasattr(item, "as_py") else item for item in value]
    if len(found) != rows:
        raise ValueError(f"{name} has {len(found)} entries, payloads has {rows}")
    return found


RowHeaders = Headers | Sequence[Headers | None] | None


def batch_headers(
    api: JetStreamApi,
    headers: RowHeaders,
    payloads: Any,
    *,
    last_seq: Any,
    last_subject_seq: Any,
    last_msg_id: Any,
    ttl: Any,
) -> tuple[RowHeaders, str | None]:
    """The headers of the rows of a batch with those of their expectations, and the time to live of all rows.

    Raises:
        ValueError: A value is invalid, or a sequence does not have one value per row.
        TypeError: A value has a wrong type, or the payloads are an Arrow stream, whose number of rows is unknown.
        UnsupportedError: The server is too old.
    """
    all_ttl = None
    if ttl is not None and _is_scalar(ttl):
        require_version(api, "msg_ttl", (2, 11))
        all_ttl, ttl = ttl_text(ttl), None
    given = {
        "expected_last_seq": last_seq,
        "expected_last_subject_seq": last_subject_seq,
        "expected_last_msg_id": last_msg_id,
        "msg_ttl": ttl,
    }
    if all(value is None for value in given.values()):
        return headers, all_ttl
    if all(map(_is_scalar, given.values())) and (headers is None or isinstance(headers, Mapping)):
        return publish_headers(api, headers, None, *given.values()), all_ttl
    try:
        rows = len(payloads)
    except TypeError:
        raise TypeError(
            "an expected_ option or msg_ttl per row needs payloads with a length, not an Arrow stream"
        ) from None
    columns = [_per_row(name, value, rows) for name, value in given.items()]
    each = [headers] * rows if headers is None or isinstance(headers, Mapping) else headers
    if len(each) != rows:
        raise ValueError(f"headers has {len(each)} entries, payloads has {rows}")
    both = zip(each, zip(*columns, strict=True), strict=True)
    return [publish_headers(api, own, None, *values) or None for own, values in both], all_ttl
