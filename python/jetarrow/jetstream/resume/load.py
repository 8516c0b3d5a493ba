"""A load in steps, which a later run continues exactly after an interruption at any moment.

Before rows are sent, the stored position has the first of them, the row that ends them, and the last sequence of the
stream. A step is over when each of its rows is resolved. A run that continues reads the ids that the stream has stored
after that sequence, and sends the others. The ids are those of the first run, so a message of the killed process that
is stored after the read is a duplicate for the server: its window has to last only for one small step.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jetarrow.core.errors import BadHeaderError, BadSubjectError, MaxPayloadError
from jetarrow.jetstream.errors import ResumeError
from jetarrow.jetstream.publish_result import PublishResult
from jetarrow.jetstream.resume.position import Position
from jetarrow.jetstream.resume.result import LoadOutcome
from jetarrow.jetstream.resume.rows import REASON, MessageRows, OffLoop
from jetarrow.jetstream.resume.stores import PositionStore
from jetarrow.jetstream.resume.stream_log import Log, LogState

if TYPE_CHECKING:
    import pyarrow as pa

# Messages of a step: with 300,000 messages/s the position is stored about five times a second.
STEP = 65_536
# Messages that are sent after a look at the stream while rows may be stored: fewer, so that looking and sending take
# less time than any duplicate window.
RECOVERY_STEP = 4_096
# Errors of a row that no later run can send either. After all others the load stops at its step.
_REJECTED = (ValueError, TypeError, BadSubjectError, BadHeaderError, MaxPayloadError)


@dataclass(frozen=True)
class LoadIdentity:
    """Facts that a position must match.

    Attributes:
        digests: Hash of the first n messages for each n from 0 on.
        source: Facts that identify the file; empty for a table.
        ids: Origin of the message ids.
    """

    digests: list[str]
    source: Mapping[str, Any]
    ids: str


class Load:
    """One run of a load.

    Args:
        log: The stream.
        store: The place of the position.
        rows: The messages.
        identity: Facts that the position must match.
        off_loop: Runs a blocking function, which reads the table.
    """

    def __init__(
        self,
        log: Log,
        store: PositionStore,
        rows: MessageRows,
        *,
        identity: LoadIdentity,
        off_loop: OffLoop,
    ) -> None:
        self._log = log
        self._store = store
        self._rows = rows
        self._identity = identity
        self._off_loop = off_loop
        self.outcome = LoadOutcome(log.name)
        self.position: Position | None = None

    async def run(self) -> None:
        """Publish all rows that are not resolved; stop at the first step with a row that a later run can send."""
        position = self.position = await self._start()
        first = self.outcome.skipped = position.row
        await self._off_loop(lambda: self._rows.skip(first))
        if position.is_uncertain and not await self._recover():
            return
        ahead = self._take(STEP)
        while True:
            state = await self._log.state()
            await self._check(self.position, state)
            position = self.position.after(state.last_seq, state.last_ns).announce(STEP)
            await self._store.save(position)
            self.position = position
            step = await ahead
            if not step.num_rows:
                break
            ahead = self._take(STEP)
            resolved = await self._publish(position, step)
            if resolved is None:
                return
            self.position = resolved
        self.position = position.finish()
        await self._store.save(self.position)

    def _take(self, rows: int) -> Awaitable[pa.Table]:
        assert self.position is not None
        token = self.position.token
        return self._off_loop(lambda: self._rows.take(rows, token))

    async def _start(self) -> Position:
        """Return the position to continue at, which is not stored yet if it is the first run."""
        found = await self._store.load()
        state = await self._log.state()
        wanted = self._identity
        if found is None:
            return Position(
                self._log.name,
                created=state.created,
                head=len(wanted.digests) - 1,
                digest=wanted.digests[-1],
                source=dict(wanted.source),
                ids=wanted.ids,
                token=secrets.token_hex(8),
            )
        # A table with more rows at its end is the same one.
        digest = "".join(wanted.digests[found.head : found.head + 1])
        if (found.digest, dict(found.source)) != (digest, dict(wanted.source)):
            raise self._error(
                "the rows, or the options that form subjects and payloads, are not those of the first run"
            )
        if found.ids != wanted.ids:
            raise self._error(f"the message ids of the first run are of origin {found.ids!r}, not {wanted.ids!r}")
        if found.stream != self._log.name:
            raise self._error(f"the first run wrote to stream {found.stream!r}, not {self._log.name!r}")
        await self._check(found, state)
        # From here on a run that was thought to be over cannot store its position.
        await self._store.save(found)
        return found

    def _error(self, reason: str) -> ResumeError:
        return ResumeError(
            f"could not continue the load of {self._store.where}: {reason}; repeat the first run's call, or start"
            " another load with another name"
        )

    async def _check(self, position: Position, state: LogState) -> None:
        """Raise `ResumeError` if sequences of the position are not those of the stream."""
        if position.created != state.created:
            raise self._error(f"stream {position.stream!r} was created again after the load began")
        error = await self._log.rolled_back(position.marks)
        if error is not None or state.last_seq < position.seq:
            raise self._error(
                f"stream {position.stream!r} was rolled back: it has lost messages that the load had stored"
            ) from error

    async def _recover(self) -> bool:
        """Resolve the rows that may be stored; return whether the load can go on."""
        position = self.position
        assert position is not None
        state = await self._log.state()
        found = await self._log.stored(position.seq, state)
        known = set(found.ids)
        region = await self._take(position.sent_until - position.row)
        if found.removed:
            known |= self._explained(region, found.ids, found.removed, state.per_subject)
        for at in range(0, region.num_rows, RECOVERY_STEP):
            if at:
                # A message of the killed process may have been stored since. Removed ones are in the server's window.
                last, state = state.last_seq, await self._log.state()
                known |= set((await self._log.stored(last, state)).ids)
            resolved = await self._publish(position, region.slice(at, RECOVERY_STEP), known)
            if resolved is None:
                return False
            position = self.position = resolved
            if position.is_uncertain:
                await self._store.save(position)
        # The table may end before `sent_until`.
        self.position = position.end_uncertainty()
        return True

    def _explained(self, region: pa.Table, found: list[str], removed: int, per_subject: int) -> set[str]:
        """Return the ids of rows that were stored and replaced by later rows of their subject.

        Args:
            region: The rows that may be stored.
            found: The ids that the stream has.
            removed: The number of messages that it had after the position and has no more.
            per_subject: Most messages of a subject; 0 without a limit.

        Raises:
            ResumeError: Not every removed message is one of these rows.
        """
        known = set(found)
        later: Counter[str] = Counter()
        replaced: set[str] = set()
        missing = []
        columns = (region[name].to_pylist() for name in ("msg_id", "subject", REASON))
        for number, (row_id, subject, reason) in reversed(list(enumerate(zip(*columns, strict=True)))):
            if reason is not None or row_id is None:
                continue
            if row_id in known:
                later[subject] += 1
                continue
            missing.append(number)
            if per_subject and later[subject] >= per_subject:
                replaced.add(row_id)
        if not missing or len(replaced) == removed:
            return replaced
        assert self.position is not None
        rows = f"rows {self.position.row + missing[-1]:,} to {self.position.row + missing[0]:,}"
        raise ResumeError(
            f"could not continue the load of {self._store.where}: stream {self._log.name!r} has removed"
            f" {removed:,} messages after sequence {self.position.seq:,}, and {len(missing):,} of {rows} may be among"
            " them; find out from the stream's consumers which were stored, and load the others with another name"
        )

    async def _publish(self, position: Position, step: pa.Table, known: set[str] | None = None) -> Position | None:
        """Publish the rows of a step whose id is not known.

        Args:
            position: The position of its first row.
            step: The rows.
            known: Ids of rows that the stream has.

        Returns:
            The position after the step; None if it has a row that failed and that a later run can send.
        """
        rejected = sent = 0
        for start, end in _runs(step, known):
            first_row, sent = position.row + start, sent + end - start
            result = await self._log.publish(step.slice(start, end - start), first_row)
            self.outcome.add(first_row, result)
            refused = [error for error in result.errors if isinstance(error.error, _REJECTED)]
            if len(refused) < len(result.errors):
                return None
            rejected += len(refused)
        self.outcome.skipped += step.num_rows - sent
        return position.advance(step.num_rows, rejected=rejected)

    def result(self) -> PublishResult:
        """Return the result of this run."""
        return PublishResult(self.outcome, self.outcome.skipped)


def _runs(step: pa.Table, known: set[str] | None) -> list[tuple[int, int]]:
    """Return the ranges of rows whose id is not known."""
    if not known:
        return [(0, step.num_rows)]
    runs: list[tuple[int, int]] = []
    for number, row_id in enumerate(step["msg_id"].to_pylist()):
        if row_id in known:
            continue
        if runs and runs[-1][1] == number:
            runs[-1] = (runs[-1][0], number + 1)
        else:
            runs.append((number, number + 1))
    return runs
