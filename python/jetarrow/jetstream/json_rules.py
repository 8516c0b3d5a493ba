"""The rules that JSON leaves open to a decoder: time zone and unit of timestamps, and tolerance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jetarrow.jetstream.literals import TimestampNumbers, check_literal


@dataclass(frozen=True, slots=True)
class JsonRules:
    """Rules of the native JSON decoder.

    Attributes:
        time_zone: Zone of texts without an offset: "UTC", an IANA name or an offset such as "+02:00".
        timestamp_numbers: Unit of numbers in timestamp fields, or "error"; None for the unit of the field.
        like_spark: As `from_json` of Spark: a malformed row keeps the fields that fit, a string field takes any value
            as its JSON text, an empty payload is null, and without `timestamp_numbers` numbers are seconds.
        non_finite: Floats may be NaN or infinite.
    """

    time_zone: str = "UTC"
    timestamp_numbers: TimestampNumbers | None = None
    like_spark: bool = False
    non_finite: bool = False


def json_rules(schema: object, time_zone: str, timestamp_numbers: TimestampNumbers | None) -> JsonRules:
    """Checks the options of a read and returns the rules.

    Args:
        schema: As `js.read` takes it: without a unit of its own, numbers in its timestamp fields are malformed.
        time_zone: As `js.read`. The native core checks that it exists.
        timestamp_numbers: As `js.read`.

    Raises:
        ValueError: `timestamp_numbers` is not one of its values.
        TypeError: `time_zone` is not a text.
    """
    if timestamp_numbers is not None:
        check_literal("timestamp_numbers", timestamp_numbers, TimestampNumbers)
    elif _lacks_units(schema):
        timestamp_numbers = "error"
    if not isinstance(time_zone, str):
        raise TypeError(f"time_zone must be a str such as 'Europe/Berlin', not {type(time_zone).__name__}")
    return JsonRules(time_zone, timestamp_numbers)


def _lacks_units(schema: Any) -> bool:
    """Whether the schema, as text or as a Python type, has a timestamp field without a unit."""
    if isinstance(schema, str):
        return True
    if isinstance(schema, Mapping):
        return any(map(_lacks_units, schema.values()))
    if isinstance(schema, list):
        return any(map(_lacks_units, schema))
    return schema is datetime
