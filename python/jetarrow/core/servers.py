"""Servers and their versions, as the client shows them."""

from __future__ import annotations

import re
from collections import UserString
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import ParseResult

__all__ = ["RawCredentials", "ReconnectToServerHandler", "Server", "ServerVersion", "Srv"]


class RawCredentials(UserString):
    """The text of a credentials file, instead of its path."""

    def __repr__(self) -> str:
        return "RawCredentials(***)"


@dataclass
class Server:
    """A server of the pool: its address, and the failed attempts since the last success."""

    uri: ParseResult
    reconnects: int = 0


@dataclass
class Srv:
    """A server with all that is known about it."""

    uri: ParseResult
    reconnects: int = 0
    last_attempt: float | None = None
    did_connect: bool = False
    discovered: bool = False
    tls_name: str | None = None
    server_version: str | None = None


ReconnectToServerHandler: TypeAlias = Callable[[list[Server], dict[str, Any]], tuple[Server | None, float]]

_VERSION = re.compile(
    r"(?P<major>0|[1-9]\d*)\.(?P<minor>0|[1-9]\d*)\.(?P<patch>0|[1-9]\d*)"
    r"(?:-(?P<prerelease>[0-9A-Za-z.-]+))?(?:\+(?P<build>[0-9A-Za-z.-]+))?"
)


class ServerVersion:
    """A server's version in its parts: `major`, `minor`, `patch`, `prerelease`, `build`, `dev`.

    A text that is no semantic version raises ValueError when a part is asked for.
    """

    def __init__(self, server_version: str) -> None:
        self._server_version = server_version

    def _part(self, name: str) -> str:
        match = _VERSION.fullmatch(self._server_version)
        if match is None:
            raise ValueError(f"{self._server_version} is not a valid Semantic Version")
        return match[name] or ""

    @property
    def major(self) -> int:
        """The first number."""
        return int(self._part("major"))

    @property
    def minor(self) -> int:
        """The second number."""
        return int(self._part("minor"))

    @property
    def patch(self) -> int:
        """The third number."""
        return int(self._part("patch"))

    @property
    def prerelease(self) -> str:
        """What follows a hyphen, or an empty string."""
        return self._part("prerelease")

    @property
    def build(self) -> str:
        """What follows a plus sign, or an empty string."""
        return self._part("build")

    @property
    def dev(self) -> str:
        """Prerelease and build, joined by a plus sign where there is a build."""
        return f"{self.prerelease}+{self.build}" if self.build else self.prerelease

    def __repr__(self) -> str:
        return f"<nats server v{self._server_version}>"
