"""What the verbs of a bucket have in common."""

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
    """The verbs of a context that a bucket is made of."""


class Bucket:
    """A bucket's name, and where it is."""

    _name: str
    _stream: str
    # What its subjects begin with, as they are stored, and as they are published.
    _pre: str
    _put_pre: str
    _js: BucketContext
    # Whether any replica may answer.
    _direct: bool
    # How native code makes its entries.
    _entries: Entries
    # When its stream was created, where that is known.
    _created: datetime | None

    def _raise_missing(self, error: NotFoundError) -> NoReturn:
        if error.err_code == STREAM_NOT_FOUND:
            raise bucket_not_found(self._name, error) from None
        raise KeyNotFoundError from None


def bucket_not_found(name: str, error: NotFoundError) -> BucketNotFoundError:
    """The error for a bucket whose stream is not there."""
    return not_found.bucket_not_found_error(error, name, STREAM_PREFIX)
