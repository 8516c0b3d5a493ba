"""Option `partitionBy`: the tokens of the subject that are the key of a partition."""

from __future__ import annotations

import re

from .choices import ReadMode
from .option_texts import OptionTexts, invalid, items

_VALID = "a comma list of token numbers of the subject from 1 to 32, at most 9, each once, such as 2 or 2,3"
# Maximum position of a token, and maximum number of tokens: a regular expression has a group for each of them.
_LAST_TOKEN = 32
_MOST_TOKENS = 9
# Limits of a partition, which would divide a key.
_EXCLUDED = ("maxPartitionBytes", "maxRecordsPerPartition", "maxBytesPerPartition", "maxOffsetsPerPartition")


def partition_by(options: OptionTexts) -> tuple[int, ...]:
    """Return the tokens of the option; empty if it is not set.

    Args:
        options: The options of the read.

    Raises:
        ValueError: The value is not a list of token numbers, or an option that divides partitions is set too.
    """
    text = options.text("partitionBy")
    if text is None:
        return ()
    given = items(text)
    for item in given:
        if not re.fullmatch(r"[0-9]{1,9}", item) or not 1 <= int(item) <= _LAST_TOKEN:
            raise invalid("partitionBy", f"{item!r} is not a token number", _VALID)
    tokens = tuple(map(int, given))
    if not tokens or len(set(tokens)) != len(tokens) or len(tokens) > _MOST_TOKENS:
        raise invalid("partitionBy", f"{text!r} names no token, one twice, or too many", _VALID)
    for name in _EXCLUDED:
        if options.text(name) is not None:
            raise invalid(name, "does not go with 'partitionBy', whose keys are not divided", "minPartitions with it")
    if options.choice("readMode", ReadMode) == ReadMode.LATEST:
        raise invalid(
            "partitionBy", "does not go with readMode=latest, which has one message a subject", "leave it out"
        )
    return tokens
