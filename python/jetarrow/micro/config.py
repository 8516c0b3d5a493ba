"""Configuration of services, groups and endpoints."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jetarrow.micro.models import EndpointStats
from jetarrow.micro.request import Handler

DEFAULT_QUEUE_GROUP = "q"
"""Default queue group of endpoints: each request is delivered to one instance."""

# semver.org: numbers without leading zeros, then an optional pre-release and an optional build.
_NUMBER = r"(?:0|[1-9]\d*)"
_PART = rf"(?:{_NUMBER}|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
SEMVER_REGEX = re.compile(
    rf"^{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_PART}(?:\.{_PART})*)?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?$"
)
NAME_REGEX = re.compile(r"^[A-Za-z0-9\-_]+$")
SUBJECT_REGEX = re.compile(r"^[^ >]*[>]?$")

StatsHandler = Callable[[EndpointStats], Any]
"""Called for each endpoint at each STATS request; its result becomes `data`, as JSON."""


def _check_name(name: str) -> None:
    if not name:
        raise ValueError("Name cannot be empty.")
    # `fullmatch`: `$` alone would accept a final newline.
    if not NAME_REGEX.fullmatch(name):
        raise ValueError(f"Invalid name {name!r}. It must contain only letters, digits, dashes and underscores.")


def _check_subject(what: str, subject: str | None) -> None:
    if subject and (not SUBJECT_REGEX.fullmatch(subject) or any(letter.isspace() for letter in subject)):
        raise ValueError(f"Invalid {what} {subject!r}. It must not contain spaces, and '>' only at its end.")


@dataclass
class EndpointConfig:
    """Configuration of an endpoint.

    Attributes:
        name: Letters, digits, `-` and `_`; not necessarily unique.
        handler: Function that answers its requests.
        queue_group: The queue group. Default: that of its group or service.
        subject: The subject. Default: the name.
        metadata: Values by key, returned by INFO. Default: none.
        queue_group_disabled: Every instance receives every request. Default: False.
    """

    name: str
    handler: Handler
    queue_group: str | None = None
    subject: str | None = None
    metadata: dict[str, str] | None = None
    queue_group_disabled: bool = False

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_subject("subject", self.subject)
        _check_subject("queue group", self.queue_group)


@dataclass
class GroupConfig:
    """Configuration of a group.

    Attributes:
        name: Prefix of the subjects of its endpoints.
        queue_group: The queue group of its endpoints. Default: that of the enclosing group or service.
        queue_group_disabled: As for `EndpointConfig`, for all of its endpoints. Default: False.
    """

    name: str
    queue_group: str | None = None
    queue_group_disabled: bool = False

    def __post_init__(self) -> None:
        _check_subject("name", self.name)
        _check_subject("queue group", self.queue_group)


@dataclass
class ServiceConfig:
    """Configuration of a service.

    Attributes:
        name: Letters, digits, `-` and `_`; the same for all instances.
        version: A semantic version, for example `1.0.0`.
        description: Description for users. Default: none.
        metadata: Values by key. Default: none.
        queue_group: The queue group of its endpoints. Default: "q".
        stats_handler: Function whose result is added to the statistics of each endpoint. Default: none.
        queue_group_disabled: As for `EndpointConfig`, for all of its endpoints. Default: False.
    """

    name: str
    version: str
    description: str | None = None
    metadata: dict[str, str] | None = None
    queue_group: str | None = None
    stats_handler: StatsHandler | None = None
    queue_group_disabled: bool = False

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not self.version:
            raise ValueError("Version cannot be empty.")
        if not SEMVER_REGEX.fullmatch(self.version):
            raise ValueError(f"Invalid version {self.version!r}. It must be a semantic version, such as 1.0.0.")
        _check_subject("queue group", self.queue_group)


def inherited(
    queue_group: str | None, disabled: bool, parent: str | None, parent_disabled: bool
) -> tuple[str | None, bool]:
    """Returns the queue group, and whether it is disabled: own settings first, then those of the parent."""
    if disabled:
        return None, True
    if queue_group:
        return queue_group, False
    return parent, parent_disabled
