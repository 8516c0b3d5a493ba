"""What is built on the sync twin (Spark, the command) needs more of it than its users: here, by name."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jetarrow import _jetarrow
from jetarrow.core.errors import Error
from jetarrow.core.session import run_to_completion
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.arrow import ArrowProducer
from jetarrow.jetstream.errors import StreamRolledBackError
from jetarrow.jetstream.publish_result import PublishResult
from jetarrow.jetstream.read_spec import ReadSpec
from jetarrow.jetstream.reader import Reader
from jetarrow.jetstream.rollback import Extent, Mark, verify
from jetarrow.sync.blocking import iterate
from jetarrow.sync.client import Client
from jetarrow.sync.manager import JetStreamManager


def api_of(js: JetStreamManager) -> JetStreamApi:
    """The API that a manager or context sends its requests to."""
    return js._inner._api


def request(
    js: JetStreamManager, verb: str, body: Mapping[str, Any] | None = None, *, timeout: float | None = None
) -> Any:
    """One request to JetStream's API; the decoded answer, which has no error in it.

    Args:
        js: Whose connection, prefix and timeout.
        verb: The API's subject after the prefix, for example `STREAM.INFO.ORDERS`.
        body: Sent as JSON; None sends nothing.
        timeout: Seconds; None is that of `js`.

    Raises:
        APIError: The server refuses.
        ServiceUnavailableError: No server has JetStream for this account.
        TimeoutError: No answer in time.
    """
    return run_to_completion(api_of(js).request(verb, body, timeout=timeout))


def witness(js: JetStreamManager) -> tuple[object, int]:
    """The link, and how often it broke: what was learnt under another one may be of another history.

    Args:
        js: Whose link.
    """
    native = api_of(js).session.native
    return native, native.breaks


def verify_marks(
    js: JetStreamManager, stream: str, marks: Sequence[Mark], *, extent: Extent | None = None
) -> StreamRolledBackError | None:
    """Compares messages that were seen with what a stream has: `rollback.verify`.

    Args:
        js: Whose connection, prefix and timeout.
        stream: The stream.
        marks: Their sequences and times.
        extent: What the stream has. Default: it is asked.
    """
    return run_to_completion(verify(api_of(js), stream, marks, extent=extent))


def request_each(
    js: JetStreamManager, asked: Sequence[tuple[str, Mapping[str, Any] | None]], *, at_once: int = 256
) -> list[Any]:
    """Many requests to JetStream's API side by side, their answers to one subscription: 25 us each, a thread's is 300.

    Args:
        js: Whose connection, prefix and timeout.
        asked: The API's subjects after the prefix, and what is sent as JSON; None sends nothing.
        at_once: How many are unanswered at most.

    Returns:
        The decoded answers, those that are errors too; None where none came, or none that can be read.
    """
    api = api_of(js)
    client: Client = api.session.client
    found: list[Any] = [None] * len(asked)
    inbox = client.new_inbox()
    answers = client.subscribe(f"{inbox}.*")
    sent = 0
    try:
        for seen in range(len(asked)):
            while sent < len(asked) and sent - seen < at_once:
                verb, body = asked[sent]
                payload = b"" if body is None else json.dumps(body).encode()
                client.publish(f"{api.prefix}.{verb}", payload, reply=f"{inbox}.{sent}")
                sent += 1
            answer = answers.next_msg(timeout=api.timeout)
            with contextlib.suppress(ValueError):
                found[int(answer.subject.rpartition(".")[2])] = json.loads(answer.data)
    except Error:
        pass  # what is left has no answer
    finally:
        with contextlib.suppress(Error):
            answers.unsubscribe()
    return found


def pages(js: JetStreamManager, verb: str, key: str, body: Mapping[str, Any] | None = None) -> Iterator[Any]:
    """The entries of a list of JetStream's API, page after page as they are needed."""
    return iterate(api_of(js).pages(verb, key, body))


def open_reader(js: JetStreamManager, stream: str, **arguments: Any) -> _jetarrow.Reader:
    """The native reader of a range, opened: its batches, and what it warns of, without the wrapping.

    Args:
        js: Whose connection and prefix.
        stream: The stream's name.
        arguments: As `ReadSpec` takes them.
    """
    return Reader(api_of(js), ReadSpec(stream, **arguments))._open_blocking()


# Most bytes of rows that are unanswered.
_MAX_BYTES = 32 << 20


def publish_rows(
    js: JetStreamManager,
    rows: ArrowProducer,
    *,
    subject: str | None,
    mode: str,
    expected_stream: str | None,
    max_inflight: int | None,
    timeout: float,
    first_row: int,
) -> PublishResult:
    """As `publish_batch`, with rows that are counted on from those of earlier calls.

    Args:
        js: Whose connection and prefix.
        rows: A table, as `publish_batch` takes it.
        subject: One for all rows; None takes the column `subject`.
        mode: As `publish_batch`.
        expected_stream: As `publish_batch`.
        max_inflight: As `publish_batch`.
        timeout: As `publish_batch`.
        first_row: The first row's number, in `errors` and in their texts.

    Raises:
        BatchError: As `publish_batch`.
    """
    api = api_of(js)
    call = api.session.native.publish_batch(
        subject,
        rows,
        prefix=api.prefix,
        headers=None,
        msg_ids=None,
        msg_ttl=None,
        expected_stream=expected_stream,
        mode=mode,
        max_inflight=max_inflight,
        max_bytes=_MAX_BYTES,
        timeout=timeout,
        resend=None,
        progress=None,
        first_row=first_row,
    )
    return PublishResult(call.block())
