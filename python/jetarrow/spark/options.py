"""The options of ``format("jetstream")``: read, checked, defaulted."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

EARLIEST = -2
LATEST = -1

READ_OPTIONS = (
    "servers",
    "stream",
    "startingOffsets",
    "endingOffsets",
    "minPartitions",
    "maxOffsetsPerPartition",
)
# What Spark itself adds to the options of a source.
_FROM_SPARK = frozenset({"path", "checkpointlocation", "owner", "provider"})
_SCHEMES = ("nats", "tls")
_BAD_IN_STREAM = re.compile(r"[\s.*>/\\]")


@dataclass(frozen=True)
class ReadOptions:
    """Checked options of a batch read.

    Attributes
    ----------
    servers:
        Addresses to connect to, each ``nats://host:port`` or ``tls://host:port``.
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

    servers: tuple[str, ...]
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
    options = {name.lower(): value for name, value in given.items()}
    streams = _streams(_required(options, "stream", "the name of a stream, or a comma list of names"))
    return ReadOptions(
        servers=_servers(_required(options, "servers", "a comma list such as nats://host:4222")),
        streams=streams,
        starting=_offsets("startingOffsets", options, streams),
        ending=_offsets("endingOffsets", options, streams),
        min_partitions=_positive("minPartitions", options, 1),
        max_offsets_per_partition=_positive("maxOffsetsPerPartition", options, 1_000_000),
    )


def unknown_options(given: Mapping[str, str]) -> list[str]:
    """Return the names in `given` that neither this source nor Spark knows, in lower case, sorted.

    Parameters
    ----------
    given:
        What the user and Spark have set, name to text. The values stay out of it: one may be a secret.
    """
    known = {name.lower() for name in READ_OPTIONS} | _FROM_SPARK
    names = {name.lower() for name in given} - known
    return sorted(name for name in names if not name.startswith("option."))


def _invalid(option: str, problem: str, valid: str) -> ValueError:
    return ValueError(f"jetstream option '{option}': {problem}; valid: {valid}")


def _required(options: Mapping[str, str], name: str, valid: str) -> str:
    value = options.get(name.lower(), "").strip()
    if not value:
        unknown = ", ".join(unknown_options(options))  # most likely a slip of the pen
        given = f" (unknown options given: {unknown})" if unknown else ""
        raise _invalid(name, f"is required{given}", valid)
    return value


def _items(text: str) -> list[str]:
    return [item for item in (part.strip() for part in text.split(",")) if item]


def _servers(text: str) -> tuple[str, ...]:
    valid = "a comma list of nats://host:port, tls://host:port or host:port"
    servers = []
    for item in _items(text):
        if "@" in item:  # never shown: it holds a secret
            raise _invalid("servers", "user and password do not belong into an address", valid)
        url = item if "://" in item else f"nats://{item}"
        try:
            parts = urlsplit(url)
            sound = parts.scheme in _SCHEMES and parts.hostname and (parts.port is None or parts.port > 0)
            sound = sound and parts.path in ("", "/") and not parts.query and not parts.fragment
        except ValueError:  # what urlsplit says of a bad port or a bad IPv6 address
            sound = False
        if not sound:
            raise _invalid("servers", f"{item!r} is not an address", valid)
        servers.append(url.rstrip("/"))
    if not servers:
        raise _invalid("servers", "is empty", valid)
    return tuple(servers)


def _streams(text: str) -> tuple[str, ...]:
    valid = "names without spaces, dots, slashes, * and >, each once"
    names = _items(text)
    for name in names:
        if _BAD_IN_STREAM.search(name):
            raise _invalid("stream", f"{name!r} cannot be a stream", valid)
    if not names or len(set(names)) != len(names):
        raise _invalid("stream", f"{text!r} names no stream, or one twice", valid)
    return tuple(names)


def _positive(name: str, options: Mapping[str, str], default: int) -> int:
    text = options.get(name.lower())
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,18}", text.strip()) or int(text) < 1:
        raise _invalid(name, f"{text!r} is not a count", f"a whole number from 1, default {default}")
    return int(text)


def _offsets(name: str, options: Mapping[str, str], streams: tuple[str, ...]) -> dict[str, int]:
    """Per stream a sequence, EARLIEST (only where reading starts) or LATEST (only where it ends).

    A batch has nothing to read from the latest on, nor up to the earliest: as with Kafka that is refused.
    """
    word, default, refused = (
        ("earliest", EARLIEST, LATEST) if name == "startingOffsets" else ("latest", LATEST, EARLIEST)
    )
    valid = f'{word} (default), or JSON such as {{"{streams[0]}": 100}} (a sequence, or {default} for {word})'
    offsets = dict.fromkeys(streams, default)
    text = options.get(name.lower(), word).strip()
    if text.lower() == word:
        return offsets
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise _invalid(name, f"{text!r} cannot be used", valid)
    for stream, sequence in given.items():
        if stream not in offsets:
            raise _invalid(name, f"{stream!r} is not in option 'stream'", f"one of {', '.join(streams)}")
        if isinstance(sequence, bool) or not isinstance(sequence, int):
            raise _invalid(name, f"{sequence!r} of {stream!r} is not a sequence", valid)
        if sequence == refused or not (sequence == default or 1 <= sequence < 2**63):
            raise _invalid(name, f"{sequence} of {stream!r} cannot be used (sequences begin with 1)", valid)
        offsets[stream] = sequence
    return offsets
