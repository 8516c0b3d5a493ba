"""The Go library of consumer groups (orbit.go's pcgroups), driven from tests."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from types import TracebackType
from typing import Any

from ..tools import PATIENCE


class GoError(Exception):
    """The Go library returned an error."""


class GoPeer:
    """Runs verbs of the Go library, one process each.

    Args:
        tool: The program of tests/groups/pcgroups.
        url: Address of the server.
        stream: The stream of the groups.
    """

    def __init__(self, tool: str, url: str, stream: str) -> None:
        self._tool = tool
        self._url = url
        self._stream = stream

    def __call__(self, verb: str, group: str = "", **arguments: Any) -> Any:
        """Runs a verb and returns its result."""
        done = subprocess.run(self.command(verb, group, **arguments), capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise GoError(done.stderr.strip())
        return json.loads(done.stdout)

    def command(self, verb: str, group: str, **arguments: Any) -> list[str]:
        """Returns the command line of a verb."""
        given = {"stream": self._stream, "group": group, "kind": "elastic", **arguments}
        return [self._tool, self._url, verb, json.dumps(given)]

    def member(self, group: str, name: str, **arguments: Any) -> MemberProcess:
        """Starts a process that consumes as a member.

        Args:
            group: The group.
            name: The member's name.
            **arguments: `ack_wait` and `work` in seconds, `max_ack_pending`, `kind`.
        """
        given = {"ack_wait": 2.0, "max_ack_pending": 1, **arguments}
        return MemberProcess(self.command("consume", group, member=name, **given))


class MemberProcess:
    """A member in a process of its own, with the messages that it has acknowledged."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.handled: list[dict[str, Any]] = []
        self.log: list[str] = []
        self._joined = threading.Event()
        self._readers = [threading.Thread(target=one, daemon=True) for one in (self._read, self._read_log)]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            value = json.loads(line)
            if value == "joined":
                self._joined.set()
            elif value is not None:
                self.handled.append(value)

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)

    def __enter__(self) -> MemberProcess:
        if not self._joined.wait(PATIENCE):
            self.kill()
            raise GoError("".join(self.log))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()

    def kill(self) -> None:
        """Kills the process and reads the rest of its output."""
        self.process.kill()
        self.wait()

    def stop(self) -> int:
        """Ends the member; the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.wait()

    def wait(self) -> int:
        """Waits for the end; the exit code."""
        code = self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        return code

    def data(self) -> list[str]:
        """Payloads of the acknowledged messages, in order."""
        return [one["data"] for one in self.handled if not one["error"]]


class OurPeer:
    """Starts members of ours as processes, as `GoPeer.member` those in Go."""

    def __init__(self, url: str, stream: str) -> None:
        self._url = url
        self._stream = stream

    def member(self, group: str, name: str, **arguments: Any) -> MemberProcess:
        """Starts a process that consumes as a member; arguments as for `GoPeer.member`."""
        given = {"ack_wait": 2.0, "max_ack_pending": 1, "kind": "elastic", **arguments}
        given |= {"stream": self._stream, "group": group, "member": name}
        return MemberProcess([sys.executable, "-m", "tests.groups.our_member", self._url, json.dumps(given)])
