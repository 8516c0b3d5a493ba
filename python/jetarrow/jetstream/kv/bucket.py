"""Base class of the verbs of a bucket."""

from __future__ import annotations

from datetime import datetime
from typing import NoReturn

from jetarrow._jetarrow import Entries
from jetarrow.jetstream import not_found
from jetarrow.jetstream.api import STREAM_NOT_FOUND
from jetarrow.jetstream.errors import BucketNotFoundError, KeyNotFoundError, NotFoundError
from jetarrow.jetstream.kv.names import STREAM_PREFIX
from jetarrow.jetstream.ordered import OrderedVerbs
from jetarrow.jetstream.publish import PublishVerbs
from jetarrow.jetstream.subscribe import Subscribe


class BucketContext(PublishVerbs, Subscribe, OrderedVerbs):
    """The verbs of a context that a bucket uses."""


class Bucket:
    """Name, stream, subjects and context of a bucket."""

    _name: str
    _stream: str
    # Prefix of its subjects, as stored and as published.
    _pre: str
    _put_pre: str
    _js: BucketContext
    # Whether reads use direct get, which any replica answers.
    _direct: bool
    # Factory of entries in native code.
    _entries: Entries
    # Creation time of its stream; None if unknown.
    _created: datetime | None

    def _raise_missing(self, error: NotFoundError) -> NoReturn:
        if error.err_code == STREAM_NOT_FOUND:
            raise bucket_not_found(self._name, error) from None
        raise KeyNotFoundError from None


def bucket_not_found(name: str, error: NotFoundError) -> BucketNotFoundError:
    """Return the error for a bucket whose stream does not exist."""
    return not_found.bucket_not_found_error(error, name, STREAM_PREFIX)
