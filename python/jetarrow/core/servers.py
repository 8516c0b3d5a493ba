"""Servers and server versions, as the client's properties return them."""

from __future__ import annotations

import re
from collections import UserString
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import ParseResult

__all__ = ["RawCredentials", "ReconnectToServerHandler", "Server", "ServerVersion", "Srv"]


class RawCredentials(UserString):
    """The content of a credentials file, in place of its path."""

    def __repr__(self) -> str:
        return "RawCredentials(***)"


@dataclass
class Server:
    """A server of the pool: its address, and the number of failed attempts since the last connection."""

    uri: ParseResult
    reconnects: int = 0


@dataclass
class Srv:
    """A server with all known attributes, by nats-py's names."""

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
    """A server's version and its parts: `major`, `minor`, `patch`, `prerelease`, `build`, `dev`.

    Reading a part raises ValueError if the text is not a semantic version.
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
        """The major version."""
        return int(self._part("major"))

    @property
    def minor(self) -> int:
        """The minor version."""
        return int(self._part("minor"))

    @property
    def patch(self) -> int:
        """The patch version."""
        return int(self._part("patch"))

    @property
    def prerelease(self) -> str:
        """The pre-release after the hyphen, or an empty string."""
        return self._part("prerelease")

    @property
    def build(self) -> str:
        """The build after the plus sign, or an empty string."""
        return self._part("build")

    @property
    def dev(self) -> str:
        """Pre-release and build, joined by a plus sign if there is a build."""
        return f"{self.prerelease}+{self.build}" if self.build else self.prerelease

    def __repr__(self) -> str:
        return f"<nats server v{self._server_version}>"
