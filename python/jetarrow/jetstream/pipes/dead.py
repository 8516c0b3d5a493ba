"""Dead letters of a pipe: messages of the source that its function could not process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.pipe_errors import PipeError
from jetarrow.jetstream.pipes.messages import Failure, message_schema
from jetarrow.jetstream.read_spec import ReadSpec
from jetarrow.jetstream.reader import Reader

if TYPE_CHECKING:
    import pyarrow

# Longest reason in a header, in characters.
_REASON = 1_000


async def dead_letters(api: JetStreamApi, stream: str, failures: Sequence[Failure], subject: str) -> pyarrow.Table:
    """Return a message for each failed row: the message of the source, and the reason in headers.

    Args:
        api: The API.
        stream: The source.
        failures: The failed rows.
        subject: Subject of the messages.

    Raises:
        PipeError: A row has no sequence, so that its message is unknown.
    """
    import pyarrow.compute as pc

    pa = needs_pyarrow("a pipe")
    reasons: dict[int, str] = {}
    for failure in failures:
        if failure.seq is None:
            raise PipeError(
                f"a row of the function's table failed ({failure.reason}), and it has no column seq that names its"
                ' message: keep the column seq of the rows, or choose on_error="skip" or "fail"'
            )
        reasons.setdefault(failure.seq, failure.reason)
    first, last = min(reasons), max(reasons)
    async with Reader(api, ReadSpec(stream, start_seq=first, end_seq=last + 1, on_data_loss="warn")) as reader:
        rows = await reader.read_all()
    rows = rows.filter(pc.is_in(rows["seq"], pa.array(list(reasons), pa.int64())))
    found = zip(rows["seq"].to_pylist(), rows["subject"].to_pylist(), rows["headers"].to_pylist(), strict=True)
    headers = [list({**_own(own), **_facts(stream, seq, at, reasons[seq])}.items()) for seq, at, own in found]
    return pa.table(
        {"subject": pa.repeat(subject, len(rows)), "data": rows["data"], "headers": headers}, schema=message_schema()
    )


def _own(headers: Any) -> Mapping[str, list[str]]:
    """Return the headers of a message without those that instruct the server."""
    return {name: values for name, values in headers or () if not name.startswith("Nats-")}


def _facts(stream: str, seq: int, subject: str, reason: str) -> Mapping[str, list[str]]:
    text = " ".join(reason.split())[:_REASON]
    facts = {"Stream": stream, "Seq": str(seq), "Subject": subject, "Reason": text}
    return {f"Jetarrow-{name}": [value] for name, value in facts.items()}
