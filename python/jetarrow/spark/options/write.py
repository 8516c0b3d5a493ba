"""The options of a write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .choices import Dedup, ExactlyOnce, PublishMode, ReservedHeaders
from .connection import CONNECT_OPTIONS, ConnectOptions, connect_options
from .option_texts import OptionTexts, invalid, name_pattern, stream_names

# Maximum number of messages of an atomic batch (ADR-50).
MAX_CHUNK = 1_000
# Pattern of a write without `stream` and `streamPattern`.
ANY_STREAM = ".*"

WRITE_OPTIONS = (
    *CONNECT_OPTIONS,
    "stream",
    "streamPattern",
    "subject",
    "publishMode",
    "writeMode",
    "chunk",
    "atomicBy",
    "dedup",
    "dedupScope",
    "exactlyOnce",
    "sinkState",
    "recoveryWindow",
    "maxInFlight",
    "reservedHeaders",
)


@dataclass(frozen=True)
class WriteOptions:
    """Validated options of a write.

    Attributes:
        connection: Servers and credentials.
        streams: The target streams. A single one must store every row; with several, or with `pattern`, each row is
            published to the stream that stores its subject.
        pattern: A regular expression for the whole name of a stream, instead of `streams`. Default: none.
        subject: Subject of all rows. Default: the column `subject`.
        publish_mode: Protocol of publishing. Default: async.
        chunk: With atomic: rows of an atomic batch. Default: 1,000.
        atomic_by: Column whose rows of equal values are stored atomically. Default: none.
        dedup: Message id of rows without a `msg_id`. Default: content, a hash of the row.
        dedup_scope: Name of a batch write: repeated with the same name it has the same ids. Default: unique for each
            write. A streaming query uses the numbers of its batches.
        sink_state: Bucket with the state of a streaming query, so that a replay after any pause stores no duplicates.
            Default: none, only the stream's duplicate window.
        recovery_window: Seconds within which Spark retries a failed task or batch. Default: 120.
        max_in_flight: Maximum number of rows in flight per task. Default: adapted to the connection.
        reserved_headers: Handling of rows with ids, expectations and batches in `headers`. Default: fail.
    """

    connection: ConnectOptions
    streams: tuple[str, ...]
    pattern: str | None = None
    subject: str | None = None
    publish_mode: PublishMode = PublishMode.ASYNC
    chunk: int = MAX_CHUNK
    atomic_by: str | None = None
    dedup: Dedup = Dedup.CONTENT
    dedup_scope: str | None = None
    sink_state: str | None = None
    recovery_window: float = 120.0
    max_in_flight: int | None = None
    reserved_headers: ReservedHeaders = ReservedHeaders.FAIL

    @property
    def stream(self) -> str | None:
        """The stream that must store every row; None if there are several."""
        return self.streams[0] if len(self.streams) == 1 else None

    @property
    def target(self) -> str:
        """Description of the target, for messages."""
        if self.pattern is not None:
            return f"the streams that match {self.pattern!r}"
        return f"{'stream' if len(self.streams) == 1 else 'streams'} {', '.join(map(repr, self.streams))}"


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Read and check the options of a write.

    Args:
        given: Options of the user and of Spark, text by name. Names are not case-sensitive; unknown ones are ignored.

    Returns:
        The options with defaults.

    Raises:
        ValueError: An option is missing or not valid; the message has the valid values in one line.
    """
    options = OptionTexts(given, WRITE_OPTIONS)
    streams, pattern = _streams(options)
    dedup, dedup_scope = options.choice("dedup", Dedup), options.text("dedupScope")
    if dedup_scope is not None and dedup != Dedup.CONTENT:
        raise invalid("dedupScope", f"does not go with dedup={dedup}", "dedup=content with it")
    found = WriteOptions(
        connection=connect_options(options),
        streams=streams,
        pattern=pattern,
        subject=options.text("subject"),
        publish_mode=_publish_mode(options),
        chunk=_chunk(options),
        atomic_by=_atomic_by(options, dedup),
        dedup=dedup,
        dedup_scope=dedup_scope,
        sink_state=_sink_state(options, dedup),
        recovery_window=options.seconds("recoveryWindow", "2m"),
        max_in_flight=options.positive("maxInFlight", None),
        reserved_headers=options.choice("reservedHeaders", ReservedHeaders),
    )
    if found.stream is None:
        _check_several(found)
    return found


def _streams(options: OptionTexts) -> tuple[tuple[str, ...], str | None]:
    pattern, named = options.text("streamPattern"), options.text("stream")
    if pattern is not None and named is not None:
        raise invalid("streamPattern", "does not go with 'stream'", "one of the two, or neither")
    if named is not None:
        return stream_names(named), None
    if pattern is not None:
        return (), name_pattern(pattern)
    valid = "the name of a stream, a comma list of names, or streamPattern"
    if options.text("subject") is not None:
        raise invalid("stream", f"is required with the option 'subject'{options.unknown_given()}", valid)
    if unknown := options.unknown_given():
        raise invalid("stream", f"is required{unknown}", valid)
    return (), ANY_STREAM


def _check_several(found: WriteOptions) -> None:
    """Reject options that need a single stream."""
    one = "the name of one stream, with this"
    if found.publish_mode in (PublishMode.FAST, PublishMode.ATOMIC):
        named = "atomicBy" if found.atomic_by is not None else "publishMode"
        raise invalid("stream", f"{named} is for one stream, and this write is for {found.target}", one)
    if found.sink_state is not None:
        raise invalid("stream", f"exactlyOnce=state is for one stream, and this write is for {found.target}", one)


def _publish_mode(options: OptionTexts) -> PublishMode:
    # Two names of one option.
    name = "publishMode" if options.text("writeMode") is None else "writeMode"
    if name == "writeMode" and options.text("publishMode") is not None:
        raise invalid("writeMode", "is another name of publishMode, which is given too", "one of the two")
    if options.text("atomicBy") is None:
        return options.choice(name, PublishMode)
    chosen = options.choice_or_none(name, PublishMode)
    if chosen not in (None, PublishMode.ATOMIC):
        raise invalid(name, f"{chosen} does not go with atomicBy", "atomic, or leave it out")
    return PublishMode.ATOMIC


def _chunk(options: OptionTexts) -> int:
    chunk = options.positive("chunk", MAX_CHUNK)
    valid = f"1 to {MAX_CHUNK} rows with writeMode=atomic"
    if options.text("chunk") is not None and _publish_mode(options) != PublishMode.ATOMIC:
        raise invalid("chunk", "is for atomic batches", valid)
    if options.text("chunk") is not None and options.text("atomicBy") is not None:
        raise invalid("chunk", "does not go with atomicBy, whose batches are its groups", "one of the two")
    if chunk > MAX_CHUNK:
        raise invalid("chunk", f"{chunk:,} rows are more than a server takes", valid)
    return chunk


def _atomic_by(options: OptionTexts, dedup: Dedup) -> str | None:
    column = options.text("atomicBy")
    if column is not None and dedup != Dedup.CONTENT:
        # Without ids it is unknown whether a group whose response was lost is stored.
        raise invalid("atomicBy", f"does not go with dedup={dedup}", "dedup=content with it")
    return column


def _sink_state(options: OptionTexts, dedup: Dedup) -> str | None:
    chosen, bucket = options.choice("exactlyOnce", ExactlyOnce), options.text("sinkState")
    if (chosen == ExactlyOnce.STATE) != (bucket is not None):
        valid = "the name of a key-value bucket, with exactlyOnce=state"
        raise invalid("sinkState", f"and exactlyOnce={chosen} do not go together", valid)
    if bucket is not None and not re.fullmatch(r"[A-Za-z0-9_-]+", bucket):
        raise invalid("sinkState", f"{bucket!r} cannot be a bucket", "letters, digits, - and _")
    if bucket is not None and dedup != Dedup.CONTENT:
        raise invalid("exactlyOnce", f"state does not go with dedup={dedup}", "dedup=content with it")
    return bucket
