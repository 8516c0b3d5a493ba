"""Errors of tasks that a retry cannot resolve: Spark does not retry them, and the driver raises them.

Spark retries every task whose writer raises. A task with such an error therefore returns it as its commit message, and
the commit on the driver raises it, after which the batch is not committed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import jetarrow.sync
from jetarrow.core.errors import BadHeaderError, BadSubjectError, Error, MaxPayloadError
from jetarrow.jetstream.errors import APIError, BatchError, NoStreamResponseError, NotFoundError
from jetarrow.spark._core import reason_of

# err_codes with which a stream rejects a message for its size, subject or headers (server/errors.json): message or
# headers too large, other stream, rollup, TTL, counters, atomic batches disabled, unsupported header, batch too large,
# fast batches disabled.
_REJECTED = frozenset(
    (10054, 10060, 10097, 10111, 10165, 10166, 10168, 10169, 10170, 10171, 10172, 10174, 10177, 10199, 10205)
)
# Number of tasks after the failed one that end without an error. A task that raises one is retried, three times by
# default, before Spark stops the others.
_MAX_SKIPPED = 8
_NO_STREAM = re.compile(r'no stream has the subject "([^"\\…]+)"')


@dataclass(frozen=True)
class TaskFailure:
    """Error of a task that is not retried.

    Attributes:
        kind: Name of the error's class.
        text: Text of the error.
        partition: Number of the partition.
        run: Unique name of the execution of the write.
        row: Number of the row in the partition. Default: none.
        skipped: Whether it is the error of another task, after which this task has written nothing. Default: False.
    """

    kind: str
    text: str
    partition: int
    run: str
    row: int | None = None
    skipped: bool = False

    def error(self, more: str = "") -> Exception:
        """Return the error.

        Args:
            more: Added to the text. Default: nothing.
        """
        text = self.text + more
        if self.kind == "BatchError":
            return BatchError(text, row=self.row)
        return ValueError(text) if self.kind == "ValueError" else Error(text)


def failure_of(error: Exception, js: jetarrow.sync.JetStream | None, *, partition: int, run: str) -> TaskFailure | None:
    """Return the failure of a task if a retry cannot resolve the error; else None.

    Args:
        error: Raised by the writer of the task.
        partition: Number of its partition.
        run: Unique name of the execution of the write.
        js: The context, to look up whether any stream stores a subject; None if the task has not connected.
    """
    if not _is_permanent(error, js):
        return None
    text = str(error).removeprefix("nats: ") if isinstance(error, BatchError) else reason_of(error)
    if not isinstance(error, BatchError | ValueError) and not text.startswith("jetstream: "):
        text = f"jetstream: {text}"
    return TaskFailure(type(error).__name__, text, partition, run, getattr(error, "row", None))


def failure_after(earlier: TaskFailure, *, partition: int) -> TaskFailure:
    """Return the failure of a task that begins after another one of its write has failed.

    Args:
        earlier: The failure of the other task.
        partition: Number of the partition of this task.

    Raises:
        Exception: The error of the other task, if many tasks are left: Spark retries this one, and stops the others.
    """
    if partition > earlier.partition + _MAX_SKIPPED:
        raise earlier.error("; this task has written nothing, because the write has failed")
    return replace(earlier, skipped=True)


def _is_permanent(error: BaseException | None, js: jetarrow.sync.JetStream | None) -> bool:
    if isinstance(error, BatchError):
        return error.err_code in _REJECTED or _is_permanent(error.__cause__, js)
    if isinstance(error, APIError):
        return error.err_code in _REJECTED
    if isinstance(error, NoStreamResponseError):
        # A 503 alone may be the election of a leader.
        return js is not None and _has_no_stream(js, str(error))
    if type(error) is ValueError:
        # The error of a row, such as a null payload, or one of this package. Other texts are from Spark or the user.
        return hasattr(error, "reason") or str(error).startswith("jetstream: ")
    return isinstance(error, BadHeaderError | BadSubjectError | MaxPayloadError)


def _has_no_stream(js: jetarrow.sync.JetStream, text: str) -> bool:
    """Return whether the server confirms that no stream stores the subject of an error."""
    subject = _NO_STREAM.search(text)
    if subject is None:
        return False
    try:
        js.find_stream_name_by_subject(subject[1])
    except NotFoundError:
        return True
    except Error:  # the servers are unavailable, or the user may not ask
        return False
    return False


def raise_failures(failures: Sequence[TaskFailure], tasks: int) -> None:
    """Raise the first failure of a write, with the number of tasks that failed.

    Args:
        failures: The failures, in the order of the partitions.
        tasks: Number of tasks.

    Raises:
        Exception: The first failure.
    """
    if failures:
        own = [failure for failure in failures if not failure.skipped]
        more = f"; {len(own)} of {tasks} tasks failed" if len(own) > 1 else ""
        raise (own or failures)[0].error(more)
