"""The options of ``format("jetstream")``: read, checked, defaulted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from ._connect_options import CONNECT_OPTIONS, ConnectOptions, connect_options
from ._parse import Given, invalid, stream_names

EARLIEST = -2
LATEST = -1

READ_OPTIONS = (
    *CONNECT_OPTIONS,
    "stream",
    "startingOffsets",
    "endingOffsets",
    "minPartitions",
    "maxOffsetsPerPartition",
)


@dataclass(frozen=True)
class ReadOptions:
    """Checked options of a batch read.

    Attributes
    ----------
    connection:
        Where to connect, and as whom.
    streams:
        Names of streams, in the order given.
    starting:
        Per stream the first sequence to read (inclusive), or EARLIEST.
    ending:
        Per stream the sequence to stop before (exclusive), or LATEST.
    min_partitions:
        The least number of partitions of the whole read, as far as there are sequences. Default: 1.
    max_offsets_per_partition:
        The most sequences in one partition. Default: 1,000,000.
    """

    connection: ConnectOptions
    streams: tuple[str, ...]
    starting: Mapping[str, int]
    ending: Mapping[str, int]
    min_partitions: int = 1
    max_offsets_per_partition: int = 1_000_000


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Read and check the options of a batch read.

    Parameters
    ----------
    given:
        What the user and Spark have set, name to text. Names in any case; unknown ones are left alone.

    Returns
    -------
    ReadOptions
        With defaults filled in.

    Raises
    ------
    ValueError
        An option is missing, or its value is not valid: one line that names the valid values.
    """
    options = Given(given, READ_OPTIONS)
    streams = stream_names(options.required("stream", "the name of a stream, or a comma list of names"))
    return ReadOptions(
        connection=connect_options(options),
        streams=streams,
        starting=_offsets("startingOffsets", options, streams),
        ending=_offsets("endingOffsets", options, streams),
        min_partitions=options.positive("minPartitions", 1),
        max_offsets_per_partition=options.positive("maxOffsetsPerPartition", 1_000_000),
    )


def _offsets(name: str, options: Given, streams: tuple[str, ...]) -> dict[str, int]:
    """Per stream a sequence, EARLIEST (only where reading starts) or LATEST (only where it ends).

    A batch has nothing to read from the latest on, nor up to the earliest: as with Kafka that is refused.
    """
    word, default, refused = (
        ("earliest", EARLIEST, LATEST) if name == "startingOffsets" else ("latest", LATEST, EARLIEST)
    )
    valid = f'{word} (default), or JSON such as {{"{streams[0]}": 100}} (a sequence, or {default} for {word})'
    offsets = dict.fromkeys(streams, default)
    text = options.text(name) or word
    if text.lower() == word:
        return offsets
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise invalid(name, f"{text!r} cannot be used", valid)
    for stream, sequence in given.items():
        if stream not in offsets:
            raise invalid(name, f"{stream!r} is not in option 'stream'", f"one of {', '.join(streams)}")
        if isinstance(sequence, bool) or not isinstance(sequence, int):
            raise invalid(name, f"{sequence!r} of {stream!r} is not a sequence", valid)
        if sequence == refused or not (sequence == default or 1 <= sequence < 2**63):
            raise invalid(name, f"{sequence} of {stream!r} cannot be used (sequences begin with 1)", valid)
        offsets[stream] = sequence
    return offsets
