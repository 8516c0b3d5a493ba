"""Parsing of option texts; an error names the option and its valid values in one line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypeVar, overload
from urllib.parse import urlsplit

from jetarrow.spark._core import is_name

_E = TypeVar("_E", bound=StrEnum)

# Options that Spark adds to those of a source or a sink.
_FROM_SPARK = frozenset({"path", "checkpointlocation", "owner", "provider", "queryname"})
_SCHEMES = ("nats", "tls")
_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30}
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class OptionTexts:
    """Options of the user and of Spark, text by name; names are not case-sensitive.

    Args:
        given: Names and values.
        known: The names that are valid here.
    """

    def __init__(self, given: Mapping[str, str], known: Sequence[str]) -> None:
        self._options = {name.lower(): value for name, value in given.items()}
        self._known = known

    def raw(self, name: str) -> str | None:
        """Return the unchanged value; None if it is missing or blank."""
        text = self._options.get(name.lower(), "")
        return text if text.strip() else None

    def text(self, name: str) -> str | None:
        """Return the value without surrounding white space; None if it is missing or blank."""
        text = self.raw(name)
        return None if text is None else text.strip()

    def required(self, name: str, valid: str) -> str:
        """Return the value of an option that must be set.

        Args:
            name: The option.
            valid: Its valid values, for the error.

        Raises:
            ValueError: It is not set.
        """
        text = self.text(name)
        if text is None:
            raise invalid(name, f"is required{self.unknown_given()}", valid)
        return text

    def unknown_given(self) -> str:
        """Return the unknown names, one of which is probably a misspelt required one, for the end of an error text."""
        unknown = self.unknown()
        return f" (unknown options given: {', '.join(unknown)}{self._nearest(unknown)})" if unknown else ""

    def _nearest(self, unknown: Sequence[str]) -> str:
        """Return the suggestion for unknown names; empty if no known name is similar."""
        known = {name.lower(): name for name in self._known}
        nearest = [known[near] for name in unknown for near in difflib.get_close_matches(name, known, 1)]
        return f"; did you mean {', '.join(nearest)}?" if nearest else ""

    @overload
    def positive(self, name: str, default: int) -> int: ...
    @overload
    def positive(self, name: str, default: None) -> int | None: ...
    def positive(self, name: str, default: int | None) -> int | None:
        """Return an integer of at least 1.

        Args:
            name: The option.
            default: The value if it is not set.

        Raises:
            ValueError: The value is not an integer of at least 1.
        """
        text = self._options.get(name.lower())
        if text is None:
            return default
        if not re.fullmatch(r"[0-9]{1,18}", text.strip()) or int(text) < 1:
            raise invalid(name, f"{text!r} is not a count", f"a whole number from 1, default {default or 'no limit'}")
        return int(text)

    def limit(self, name: str) -> int | None:
        """Return an integer of at least 1; None if it is not set.

        Raises:
            ValueError: The value is not an integer of at least 1.
        """
        return self.positive(name, None)

    def size(self, name: str, default: str) -> int:
        """Return a number of bytes.

        Args:
            name: The option; its value is such as 1048576, 512k, 8m or 1g.
            default: The value if it is not set.

        Raises:
            ValueError: The value has another format.
        """
        return _bytes(name, self.text(name) or default, default)

    def size_limit(self, name: str) -> int | None:
        """Return a number of bytes; None if it is not set.

        Raises:
            ValueError: The value is not a size.
        """
        text = self.text(name)
        return None if text is None else _bytes(name, text, "no limit")

    def flag(self, name: str, *, default: bool) -> bool:
        """Return whether an option is true.

        Args:
            name: The option.
            default: The value if it is not set.

        Raises:
            ValueError: It is neither true nor false.
        """
        return self._one_of(name, ("true", "false") if default else ("false", "true")) == "true"

    def choice(self, name: str, kind: type[_E]) -> _E:
        """Return one of the values of `kind`, not case-sensitive; the first is the default.

        Args:
            name: The option.
            kind: Its values.

        Raises:
            ValueError: The value is not one of them.
        """
        return kind(self._one_of(name, [member.value for member in kind]))

    def choice_or_none(self, name: str, kind: type[_E]) -> _E | None:
        """Return one of the values of `kind`, as `choice`; None if the option is not set."""
        return None if self.text(name) is None else self.choice(name, kind)

    def seconds(self, name: str, default: str) -> float:
        """Return a duration in seconds.

        Args:
            name: The option; its value is such as 500ms, 90s, 2m, 1h or 1d.
            default: The value if it is not set.

        Raises:
            ValueError: The value has another format.
        """
        text = self.text(name) or default
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text.lower())
        if found is None or found[2] not in _UNITS:
            raise invalid(name, f"{text!r} is not a duration", f"a number and ms, s, m, h or d, default {default}")
        return float(found[1]) * _UNITS[found[2]]

    def unknown(self) -> list[str]:
        """Return the unknown names in lower case, sorted."""
        names = self._options.keys() - {name.lower() for name in self._known} - _FROM_SPARK
        return sorted(name for name in names if not name.startswith("option."))

    def refuse_unknown(self) -> None:
        """Reject unknown names, which are misspelt ones.

        Raises:
            ValueError: There are unknown names; the text has similar known names, but no values.
        """
        if not (unknown := self.unknown()):
            return
        raise ValueError(
            f"jetstream: unknown options: {', '.join(unknown)}{self._nearest(unknown)} Known: {', '.join(self._known)}"
        )

    def _one_of(self, name: str, values: Sequence[str]) -> str:
        text = self.text(name) or values[0]
        for value in values:
            if value.lower() == text.lower():
                return value
        raise invalid(name, f"{text!r} cannot be used", f"{values[0]} (default), {', '.join(values[1:])}")


def invalid(option: str, problem: str, valid: str) -> ValueError:
    """Make the error for an option.

    Args:
        option: Its name.
        problem: The problem with its value.
        valid: Its valid values.

    Returns:
        The error, not raised.
    """
    return ValueError(f"jetstream option '{option}': {problem}; valid: {valid}")


def items(text: str) -> list[str]:
    """Return the parts of a comma list, without empty ones."""
    return [item for item in (part.strip() for part in text.split(",")) if item]


def server_list(text: str) -> tuple[str, ...]:
    """Return the addresses of a comma list, each with its scheme.

    Raises:
        ValueError: An address is not valid, or has a user or a password; or there is none.
    """
    valid = "a comma list of nats://host:port, tls://host:port or host:port"
    servers = []
    if "@" in text:  # the text is not shown, because it has a secret, which may contain a comma
        raise invalid("servers", "an address must not have user and password", valid)
    for item in items(text):
        url = item if "://" in item else f"nats://{item}"
        try:
            parts = urlsplit(url)
            sound = parts.scheme in _SCHEMES and parts.hostname and (parts.port is None or parts.port > 0)
            sound = sound and parts.path in ("", "/") and not parts.query and not parts.fragment
        except ValueError:  # urlsplit raises it for an invalid port or IPv6 address
            sound = False
        if not sound:
            raise invalid("servers", f"{item!r} is not an address", valid)
        servers.append(url.rstrip("/"))
    if not servers:
        raise invalid("servers", "is empty", valid)
    return tuple(servers)


def stream_names(text: str) -> tuple[str, ...]:
    """Return the names of a comma list of streams.

    Raises:
        ValueError: A name is not valid, or occurs twice; or there is none.
    """
    valid = "names without spaces, dots, slashes, * and >, each once"
    names = items(text)
    for name in names:
        if not is_name(name):
            raise invalid("stream", f"{name!r} cannot be a stream", valid)
    if not names or len(set(names)) != len(names):
        raise invalid("stream", f"{text!r} names no stream, or one twice", valid)
    return tuple(names)


def name_pattern(text: str) -> str:
    """Return the value of `streamPattern`.

    Raises:
        ValueError: It is not a regular expression.
    """
    try:
        re.compile(text)
    except re.error as error:
        valid = "a regular expression for the whole name, such as orders_.*"
        raise invalid("streamPattern", f"{text!r} is not a regular expression: {error}", valid) from None
    return text


def _bytes(name: str, text: str, default: str) -> int:
    number = text.lower().removesuffix("ib").removesuffix("b").strip()
    found = re.fullmatch(r"(\d{1,18})\s*([kmg]?)", number)
    if found is None or int(found[1]) < 1:
        raise invalid(name, f"{text!r} is not a size", f"bytes, or with k, m or g, default {default}")
    return int(found[1]) << _SHIFTS[found[2]]
