"""A point of growth.py, as its child process gets it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness import Run

CALLS = 1_000  # calls of the works that consist of many calls, the same number at every point


def subjects_of(token: str, parts: int) -> list[str]:
    """Return the subjects of a point. All have the same length, so that messages have the same size."""
    return [f"{token}.{number:05d}" for number in range(parts)]


@dataclass(frozen=True)
class Point:
    """A work and its size. Streams, subjects and consumers have names that begin with `token`."""

    url: str
    server_pid: int
    work: str
    token: str
    streams: int
    parts: int  # subjects, subscriptions or consumers
    count: int  # messages
    size: int = 128

    @property
    def subjects(self) -> list[str]:
        return subjects_of(self.token, self.parts)

    @property
    def stream_names(self) -> list[str]:
        return [f"{self.token}-{number:05d}" for number in range(self.streams)]

    @property
    def consumers(self) -> list[str]:
        return [f"{self.token}{number:05d}" for number in range(self.parts)]

    def run(self, count: int) -> Run:
        return Run(self.url, self.server_pid, "", self.token, count, self.size)

    def ranges(self, count: int) -> Iterator[tuple[str, int, int]]:
        """Yield ranges (stream, first sequence, rows), which take the streams in turn."""
        rows = count // CALLS
        for call in range(CALLS):
            yield self.stream_names[call % self.streams], 1 + call // self.streams * rows, rows
