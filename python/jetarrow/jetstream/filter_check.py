"""Warning about filters that match no subject of their stream."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from jetarrow.core.errors import Error, PermissionsViolationError
from jetarrow.core.suggestions import did_you_mean, nearest_name
from jetarrow.jetstream.errors import NotFoundError

# Most filters that are remembered, so that each warns once; then they are forgotten.
_REMEMBERED = 1_024
# Most seconds of a request of a check.
_WAIT = 1.0
# Prefixes of the streams of buckets, whose filters are made here.
_BUCKETS = ("KV_", "OBJ_")


def subjects_collide(one: str, other: str) -> bool:
    """Whether a subject exists that both patterns match."""
    tokens, others = one.split("."), other.split(".")
    for token, its in zip(tokens, others, strict=False):
        if ">" in (token, its):
            return True
        if token != its and "*" not in (token, its):
            return False
    return len(tokens) == len(others)


class Requests(Protocol):
    """The part of `JetStreamApi` that a check uses."""

    @property
    def timeout(self) -> float:
        """Seconds of a request."""

    async def request(self, verb: str, body: Mapping[str, Any] | None = None, *, timeout: float | None = None) -> Any:
        """Sends a request."""


class FilterCheck:
    """Checks filters against the subjects of their stream, each one once per connection and context."""

    def __init__(self) -> None:
        self._checked: set[tuple[str, str]] = set()
        # The user may not read the state of streams.
        self._is_denied = False

    async def warn(self, api: Requests, stream: str, filters: Sequence[str], *, reader: str) -> None:
        """Warns of each filter that matches no subject of the stream and none of its messages.

        It makes at most one request per new filter, and another one before a warning. A failed request ends the check.

        Args:
            api: Sends the requests.
            stream: The stream.
            filters: The filters.
            reader: The consumer or the read, for the text.
        """
        new = [subject for subject in filters if (stream, subject) not in self._checked]
        if not new or self._is_denied or stream.startswith(_BUCKETS):
            return
        if len(self._checked) > _REMEMBERED:
            self._checked.clear()
        self._checked.update((stream, subject) for subject in new)
        from jetarrow.jetstream.not_found import expect_not_found  # imported here, because api imports this module

        timeout = min(api.timeout, _WAIT)
        try:
            with expect_not_found():
                info = await api.request(f"STREAM.INFO.{stream}", timeout=timeout)
                for subject in _unmatched(info["config"], new):
                    with suppress(NotFoundError):
                        await api.request(f"STREAM.MSG.GET.{stream}", {"last_by_subj": subject}, timeout=timeout)
                        continue
                    warnings.warn(_text(stream, subject, info["config"]["subjects"], reader), stacklevel=2)
        except PermissionsViolationError:
            self._is_denied = True
        except Error:
            return


def _unmatched(config: Mapping[str, Any], filters: Sequence[str]) -> list[str]:
    """The filters that no subject of a stream matches; none for streams that also store other subjects."""
    if any(config.get(name) for name in ("mirror", "sources", "subject_transform")):
        return []
    subjects = config.get("subjects") or ()
    return [wanted for wanted in filters if not any(subjects_collide(wanted, subject) for subject in subjects)]


def _text(stream: str, subject: str, subjects: Sequence[str], reader: str) -> str:
    listed = ", ".join(subjects[:5]) + (", …" if len(subjects) > 5 else "")
    return (
        f"filter {subject!r} of {reader} matches no subject of stream {stream!r} ({listed}), so it finds no message;"
        f" correct it, or add the subject to the stream{did_you_mean(nearest_name(subject, subjects))}"
    )
