"""What services, groups and endpoints are made of."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jetarrow.micro.models import EndpointStats
from jetarrow.micro.request import Handler

DEFAULT_QUEUE_GROUP = "q"
"""The queue group of all endpoints that name no other: each request goes to one of them."""

# As semver.org has it: numbers without leading zeros, then perhaps a pre-release and a build.
_NUMBER = r"(?:0|[1-9]\d*)"
_PART = rf"(?:{_NUMBER}|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
SEMVER_REGEX = re.compile(
    rf"^{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_PART}(?:\.{_PART})*)?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?$"
)
NAME_REGEX = re.compile(r"^[A-Za-z0-9\-_]+$")
SUBJECT_REGEX = re.compile(r"^[^ >]*[>]?$")

StatsHandler = Callable[[EndpointStats], Any]
"""Called for each endpoint whenever somebody asks for the stats; what it returns becomes `data`, as JSON."""


def _check_name(name: str) -> None:
    if not name:
        raise ValueError("Name cannot be empty.")
    # `$` alone would let a line end through.
    if not NAME_REGEX.fullmatch(name):
        raise ValueError(f"Invalid name {name!r}. It must contain only letters, digits, dashes and underscores.")


def _check_subject(what: str, subject: str | None) -> None:
    if subject and (not SUBJECT_REGEX.fullmatch(subject) or any(letter.isspace() for letter in subject)):
        raise ValueError(f"Invalid {what} {subject!r}. It must not contain spaces, and '>' only at its end.")


@dataclass
class EndpointConfig:
    """What an endpoint is.

    Attributes:
        name: Letters, digits, `-` and `_`; several endpoints may have the same.
        handler: What answers its requests.
        queue_group: Default: that of its group or service.
        subject: What it listens to. Default: its name.
        metadata: Texts by name, for `info`. Default: none.
        queue_group_disabled: Every instance answers every request. Default: False.
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
    """What a group is.

    Attributes:
        name: What the subjects of its endpoints begin with.
        queue_group: That of its endpoints. Default: that of the group or service that it is in.
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
    """What a service is.

    Attributes:
        name: Letters, digits, `-` and `_`; all instances of a service have the same.
        version: A semantic version, such as `1.0.0`.
        description: A text for people. Default: none.
        metadata: Texts by name. Default: none.
        queue_group: That of its endpoints. Default: "q".
        stats_handler: Adds something of its own to the stats of each endpoint. Default: none.
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
    """The queue group, and whether there is none: one's own word first, then that of what one is in."""
    if disabled:
        return None, True
    if queue_group:
        return queue_group, False
    return parent, parent_disabled
