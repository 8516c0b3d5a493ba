"""A model of a stream and of a position's place, which lose processes, answers and messages. No test is in here."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from jetarrow.jetstream.publish_result import RowError
from jetarrow.jetstream.resume.position import Position
from jetarrow.jetstream.resume.rows import REASON, MessageRows
from jetarrow.jetstream.resume.stream_log import LogState, StoredIds

# Operations for which the modelled server remembers an id.
WINDOW = 5
# Most operations after the end of a process until its last messages are stored.
LATE = 3


class Killed(Exception):
    """The process ends here."""


class World:
    """A stream, the place of a position, and the moment at which the process is killed.

    Args:
        chance: The source of all choices.
        removes: Whether the stream removes messages.
    """

    def __init__(self, chance: random.Random, *, removes: bool = False) -> None:
        self.chance = chance
        self.removes = removes
        self.clock = 0
        # Sequence to id and subject of the stored messages; all ids that were ever stored, with their number.
        self.messages: dict[int, tuple[str | None, str]] = {}
        self.last_seq = 0
        self.ever: Counter[str] = Counter()
        self.removed = 0
        self.remembered: dict[str, int] = {}
        self.late: list[tuple[int, str, str]] = []
        self.saved: bytes | None = None
        self.revision = 0
        self.kill_at: int | None = None

    def tick(self) -> None:
        """Count an operation: messages of earlier processes and of others arrive, and this process may end."""
        self.clock += 1
        for item in [item for item in self.late if item[0] <= self.clock]:
            self.late.remove(item)
            self.store(item[1], item[2])
        for _ in range(self.chance.choice([0, 0, 1, 3])):
            self.last_seq += 1
            self.messages[self.last_seq] = (None, "s.eu")
        if self.removes and self.messages and self.chance.random() < 0.05:
            self.messages.pop(self.chance.choice(list(self.messages)))
            self.removed += 1

    def dies(self) -> bool:
        """Whether the process ends at this operation."""
        if self.kill_at is None:
            return False
        self.kill_at -= 1
        return self.kill_at < 0

    def store(self, row_id: str, subject: str) -> bool:
        """Store a message unless its id is in the window; return whether it is new."""
        seen = self.remembered.get(row_id)
        if seen is not None and self.clock - seen <= WINDOW:
            return False
        self.remembered[row_id] = self.clock
        self.last_seq += 1
        self.messages[self.last_seq] = (row_id, subject)
        self.ever[row_id] += 1
        return True


class ModelLog:
    """The stream as a load sees it.

    Args:
        world: The world.
    """

    name = "S"

    def __init__(self, world: World) -> None:
        self.world = world

    def _step(self) -> None:
        self.world.tick()
        if self.world.dies():
            raise Killed

    async def state(self) -> LogState:
        self._step()
        world = self.world
        first = min(world.messages, default=world.last_seq + 1)
        deleted = world.last_seq + 1 - first - len(world.messages)
        return LogState("created", first, world.last_seq, world.last_seq or None, deleted, 0)

    async def rolled_back(self, marks: object) -> None:
        return None

    async def stored(self, after: int, state: LogState) -> StoredIds:
        self._step()
        found = {seq: row for seq, row in self.world.messages.items() if after < seq <= state.last_seq}
        return StoredIds([row_id for row_id, _ in found.values() if row_id], state.last_seq - after - len(found))

    async def publish(self, rows: pa.Table, first_row: int) -> Any:
        world, chance = self.world, self.world.chance
        world.tick()
        errors: list[RowError] = []
        counts: Counter[bool] = Counter()
        sent = [
            (number, row["msg_id"], row["subject"])
            for number, row in enumerate(rows.select(["msg_id", "subject", REASON]).to_pylist(), first_row)
            if row[REASON] is None or errors.append(RowError(number, ValueError(row[REASON])))
        ]
        if world.dies():
            # Any of the messages are stored, any arrive later, the rest is lost.
            for _, row_id, subject in sent:
                fate = chance.random()
                if fate < 0.4:
                    world.store(row_id, subject)
                elif fate < 0.6:
                    world.late.append((world.clock + chance.randint(1, LATE), row_id, subject))
            raise Killed
        fails = chance.random() < 0.1
        for number, row_id, subject in sent:
            # The answer is lost, or the message was not stored.
            if fails and chance.random() < 0.2:
                if chance.random() < 0.5:
                    world.store(row_id, subject)
                errors.append(RowError(number, TimeoutError()))
            else:
                counts[world.store(row_id, subject)] += 1
        return SimpleNamespace(count=rows.num_rows, stored=counts[True], duplicates=counts[False], errors=errors)


class ModelStore:
    """The place of the position: a save happens, or not, before the process ends.

    Args:
        world: The world.
    """

    where = "the model"

    def __init__(self, world: World) -> None:
        self.world = world
        self.revision = 0

    async def load(self) -> Position | None:
        self.revision = self.world.revision
        return None if self.world.saved is None else Position.parse(self.world.saved, self.where)

    async def save(self, position: Position) -> None:
        world = self.world
        world.tick()
        assert self.revision == world.revision, "one run at a time"
        dies = world.dies()
        if not dies or world.chance.random() < 0.5:
            world.saved = position.dump()
            self.revision = world.revision = world.revision + 1
        if dies:
            raise Killed

    def close(self) -> None:
        pass


def messages(count: int, rejected: set[int]) -> MessageRows:
    """Return encoded messages with ids of their numbers.

    Args:
        count: Their number.
        rejected: Rows that cannot be encoded.
    """
    schema = pa.schema(
        [("data", pa.large_binary()), ("subject", pa.string()), ("msg_id", pa.string()), (REASON, pa.string())]
    )
    batches = [
        pa.RecordBatch.from_pylist(
            [
                {
                    "data": None if row in rejected else b"%d" % row,
                    "subject": "s.eu",
                    "msg_id": None,
                    REASON: "NaN" if row in rejected else None,
                }
                for row in range(start, min(start + 5, count))
            ],
            schema=schema,
        )
        for start in range(0, count, 5)
    ]
    return MessageRows(pa.RecordBatchReader.from_batches(schema, batches), "row")
