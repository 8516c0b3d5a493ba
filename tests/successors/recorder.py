"""Turns results of a client into values for JSON, so that two clients in two processes can be compared.

Volatile values are masked: times, ids, ports, inboxes and the name that a scenario has for its streams. The texts of
built-in exceptions are left out, because no program depends on them. Those of the package's exceptions are compared.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import re
from typing import Any

# Fields and keys whose values differ between two runs. Their type is recorded, and None remains None.
VOLATILE = {
    *("client_id", "connect_urls", "go_version", "host", "nonce", "port", "server_id", "version"),
    *("created", "expires", "first_ts", "last_active", "last_ts", "time", "timestamp", "ts"),
}
MASKS = [
    (re.compile(r"_INBOX\.[\w.]+"), "<inbox>"),
    (re.compile(r"\b[ACNOSUX][A-Z2-7]{55}\b"), "<id>"),
    (re.compile(r"(127\.0\.0\.1|localhost):\d+"), r"\1:<port>"),
]
PACKAGE = re.compile(r"(jetarrow\.)?nats\.")
OURS = re.compile(r"jetarrow\.(?!nats\.)")


class Recorder:
    """Records the values of one scenario.

    Args:
        name: The scenario's own name, which is masked in all texts.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def record(self, value: Any) -> Any:
        """Return the value as JSON can hold it."""
        if value is None or isinstance(value, bool | int | float):
            return f"{type(value).__name__}.{value.name}" if isinstance(value, enum.Enum) else value
        if isinstance(value, enum.Enum):
            return {"enum": f"{type(value).__name__}.{value.name}", "value": self.record(value.value)}
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, bytes | bytearray):
            return {"bytes": self._text(value.decode("latin-1"))}
        if isinstance(value, datetime.datetime):
            return {"datetime": "naive" if value.tzinfo is None else str(value.utcoffset())}
        if isinstance(value, datetime.timedelta):
            return {"seconds": value.total_seconds()}
        if isinstance(value, BaseException):
            return self._error(value)
        if isinstance(value, type):
            return {"class": value.__name__}
        return self._composite(value)

    def _composite(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._text(str(key)): self._field(str(key), item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.record(item) for item in value]
        if isinstance(value, tuple):
            return {"tuple": [self.record(item) for item in value]}
        if isinstance(value, set | frozenset):
            return {"set": sorted(map(repr, map(self.record, value)))}
        if hasattr(value, "asdict"):
            return {"type": type(value).__name__, "items": self.record(value.asdict())}
        if dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value)]
        else:
            names = sorted(name for name in dir(type(value)) if isinstance(getattr(type(value), name), property))
        fields = {name: self._field(name, getattr(value, name)) for name in names if not name.startswith("_")}
        return {"type": type(value).__name__, "fields": fields}

    def _field(self, name: str, value: Any) -> Any:
        return f"<{type(value).__name__}>" if name in VOLATILE and value is not None else self.record(value)

    def _text(self, text: str) -> str:
        text = text.replace(self._name, "<name>")
        for pattern, mask in MASKS:
            text = pattern.sub(mask, text)
        return text

    def _error(self, error: BaseException) -> Any:
        # jetarrow's own classes below its successors' classes, or above built-in ones, are additions.
        classes = [cls for cls in type(error).__mro__ if not OURS.match(cls.__module__)]
        first, *bases = [cls for cls in classes if cls not in (object, BaseException)]
        names = [base.__name__ for base in bases if base is not Exception]
        # An error of ours alone has its own name.
        name = (type(error) if first is Exception else first).__name__
        found: dict[str, Any] = {"error": name, "bases": names}
        if PACKAGE.match(first.__module__):
            found["args"] = self.record(list(error.args))
            found["fields"] = {name: self._field(name, item) for name, item in vars(error).items() if name[0] != "_"}
        return found


def without_additions(ours: Any, reference: Any) -> Any:
    """Return our recorded value without the fields of objects that the reference lacks: ours may have more."""
    if isinstance(ours, list) and isinstance(reference, list) and len(ours) == len(reference):
        return [without_additions(*pair) for pair in zip(ours, reference, strict=True)]
    if isinstance(ours, dict) and isinstance(reference, dict):
        kept = {key: without_additions(item, reference.get(key)) for key, item in ours.items()}
        if isinstance(fields := kept.get("fields"), dict) and isinstance(known := reference.get("fields"), dict):
            kept["fields"] = {name: item for name, item in fields.items() if name in known}
        return kept
    return ours
