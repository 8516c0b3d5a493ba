"""Time zone of the Spark session, which a Python source cannot ask for.

Spark passes the configuration that was set to its tasks as local properties. A session without a zone has that of the
driver's JVM, which is found by the rules of Java.
"""

from __future__ import annotations

import os
import re
import zoneinfo
from collections.abc import Callable
from pathlib import Path

_PROPERTY = "spark.sql.session.timeZone"
_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
_JAVA_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
_USER_ZONE = re.compile(r"-Duser\.timezone=[\"']?([^\s\"']+)")
_OFFSET = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d\d))?", re.IGNORECASE)
# java.time.ZoneId.SHORT_IDS, which Spark accepts.
_SHORT_IDS = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
_LOCALTIME = Path("/etc/localtime")


def session_zone(local_property: Callable[[str], str | None], driver_zone: str) -> str:
    """Return the zone of the session, as the native decoder takes it.

    Args:
        local_property: Returns a local property of the task.
        driver_zone: Result of `driver_zone()` on the driver.
    """
    options = " ".join(local_property(name) or "" for name in _JAVA_OPTIONS)
    found = local_property(_PROPERTY) or _user_zone(options)
    return driver_zone if found is None else native_zone(found)


def driver_zone() -> str:
    """Return the default zone of a JVM on this machine with this environment; called on the driver."""
    found = _user_zone(" ".join(os.environ.get(name) or "" for name in _JAVA_VARIABLES))
    return native_zone(found or os.environ.get("TZ", "").removeprefix(":") or _system_zone())


def native_zone(name: str) -> str:
    """Return a zone as the native decoder takes it: offsets as `+02:00`, UTC for its other names, no short ids.

    Args:
        name: As Spark takes it, such as `GMT+2`.
    """
    name = _SHORT_IDS.get(name, name)
    if name.upper() in ("UTC", "GMT", "UT", "Z", "ETC/UTC"):
        return "UTC"
    if found := _OFFSET.fullmatch(name):
        sign, hours, minutes = found.groups()
        return f"{sign}{int(hours):02}:{minutes or '00'}"
    return name


def _user_zone(java_options: str) -> str | None:
    found = _USER_ZONE.findall(java_options)
    return found[-1] if found else None


def _system_zone() -> str:
    """Return the zone of the machine: the target of /etc/localtime, or a zone with the same rules."""
    target = os.path.realpath(_LOCALTIME)
    if (name := target.rpartition("/zoneinfo/")[2]) != target:
        return name
    if not _LOCALTIME.exists():
        return "UTC"
    rules = _LOCALTIME.read_bytes()
    for folder in map(Path, zoneinfo.TZPATH):
        for known in sorted(zoneinfo.available_timezones()):
            if (folder / known).is_file() and (folder / known).read_bytes() == rules:
                return known
    return "UTC"
