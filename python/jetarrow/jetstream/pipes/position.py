"""Position of a pipe, as stored in each atomic batch of its target."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jetarrow.jetstream.pipe_errors import PipeError
from jetarrow.jetstream.sinks.state import State

# Version of the stored position.
FORMAT = 1


@dataclass(frozen=True)
class PipePosition:
    """The position of a pipe.

    Attributes:
        pipe: Name of the pipe.
        instance: Id of the running pipe that stored it; another one is fenced by it.
        state: Position in the source: rows up to `state.last_seq` are processed, and their messages stored.
        end_seq: Last sequence of the step of which some parts are stored; 0 if there is none.
        parts: Digests of the stored parts of that step.
        total: Number of its parts.
        tables: Sequence of each table that the function had for that step.
    """

    pipe: str
    instance: str
    state: State
    end_seq: int = 0
    parts: tuple[str, ...] = ()
    total: int = 0
    tables: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_partial(self) -> bool:
        """Whether a step is stored in part."""
        return bool(self.end_seq)

    def part_of(self, end_seq: int, digests: tuple[str, ...], total: int, tables: Mapping[str, int]) -> PipePosition:
        """Return the position after some parts of the next step.

        Args:
            end_seq: Last sequence of the step.
            digests: Digests of the stored parts.
            total: Number of parts of the step.
            tables: Sequence of each table of the function.
        """
        return replace(self, end_seq=end_seq, parts=digests, total=total, tables=dict(tables))

    def after(self, state: State) -> PipePosition:
        """Return the position after the last part of a step.

        Args:
            state: Position in the source after the step.
        """
        return replace(self, state=state, end_seq=0, parts=(), total=0, tables={})

    def dump(self) -> bytes:
        """Return the position as JSON."""
        found: dict[str, Any] = {"jetarrow_pipe": FORMAT, "pipe": self.pipe, "instance": self.instance}
        state = {name: value for name, value in self.state.as_dict().items() if value not in ((), None)}
        found["state"] = state
        for name in ("end_seq", "parts", "total", "tables"):
            if value := getattr(self, name):
                found[name] = value
        return json.dumps(found, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, data: bytes, where: str) -> PipePosition:
        """Return the position of a message.

        Args:
            data: The payload.
            where: The place, for the error.

        Raises:
            PipeError: It is no position, or one of a later version.
        """
        try:
            found = json.loads(data)
            version = found["jetarrow_pipe"]
            if version > FORMAT:
                raise PipeError(f"could not open the pipe: {where} is of a later version of jetarrow; upgrade jetarrow")
            state = State.of({"schema": None, **found["state"]})
            return cls(
                pipe=str(found["pipe"]),
                instance=str(found["instance"]),
                state=state,
                end_seq=int(found.get("end_seq", 0)),
                parts=tuple(map(str, found.get("parts", ()))),
                total=int(found.get("total", 0)),
                tables={str(name): int(seq) for name, seq in found.get("tables", {}).items()},
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise PipeError(
                f"could not open the pipe: {where} is no position of a pipe ({error!r}); give another position_subject"
            ) from None
