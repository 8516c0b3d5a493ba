"""The native core. Not public: use the classes of `jetarrow` and `jetarrow.sync`.

The stubs are in `jetarrow/_native`, one file per module of rust/python/src.
"""

from jetarrow._native.batch import Array as Array
from jetarrow._native.batch import Batch as Batch
from jetarrow._native.bridge import Bridge as Bridge
from jetarrow._native.call import Call as Call
from jetarrow._native.call import alive_tasks as alive_tasks
from jetarrow._native.call import force_panic as force_panic
from jetarrow._native.call import last_words as last_words
from jetarrow._native.connect import Connection as Connection
from jetarrow._native.connect import connect as connect
from jetarrow._native.content_ids import ContentIds as ContentIds
from jetarrow._native.content_ids import Ids as Ids
from jetarrow._native.decompress import Decompressor as Decompressor
from jetarrow._native.entry import Entries as Entries
from jetarrow._native.fetch import PullSubscription as PullSubscription
from jetarrow._native.keys import Subjects as Subjects
from jetarrow._native.keys import key_subjects as key_subjects
from jetarrow._native.loss import Loss as Loss
from jetarrow._native.message import Msg as Msg
from jetarrow._native.message import SyncMsg as SyncMsg
from jetarrow._native.notices import Notices as Notices
from jetarrow._native.publish import FailedRow as FailedRow
from jetarrow._native.publish import PublishOutcome as PublishOutcome
from jetarrow._native.publisher import Publisher as Publisher
from jetarrow._native.read import Reader as Reader
from jetarrow._native.read import thin_marks as thin_marks
from jetarrow._native.registry import SchemaRegistry as SchemaRegistry
from jetarrow._native.status import PoolServer as PoolServer
from jetarrow._native.subscribe import Missed as Missed
from jetarrow._native.subscribe import Subscription as Subscription
from jetarrow._native.table import TableMessages as TableMessages
from jetarrow._native.typed import columns_of_schema as columns_of_schema
from jetarrow._native.typed import schema_of_payload as schema_of_payload

__all__ = [
    "Array",
    "Batch",
    "Bridge",
    "Call",
    "Connection",
    "ContentIds",
    "Decompressor",
    "Entries",
    "FailedRow",
    "Ids",
    "Loss",
    "Missed",
    "Msg",
    "Notices",
    "PoolServer",
    "PublishOutcome",
    "Publisher",
    "PullSubscription",
    "Reader",
    "SchemaRegistry",
    "Subjects",
    "Subscription",
    "SyncMsg",
    "TableMessages",
    "__debug_build__",
    "__version__",
    "alive_tasks",
    "check_name",
    "check_subject",
    "columns_of_schema",
    "connect",
    "force_panic",
    "key_subjects",
    "last_words",
    "schema_of_payload",
    "thin_marks",
]

__version__: str
__debug_build__: bool
"""True for a build without optimisation: benchmarks refuse to run on it."""

def check_name(what: str, name: str) -> None:
    """Check the name of a stream or consumer, which becomes one token of an API subject.

    Args:
        what: "stream" or "consumer", for the error.
        name: The name.

    Raises:
        ValueError: It is empty, or has white space, control characters, dots, wildcards or path separators.
    """

def check_subject(subject: str) -> None:
    """Check a subject that is to be published to.

    Args:
        subject: The subject.

    Raises:
        BadSubjectError: It has white space, control characters, empty tokens or wildcards, or is too long.
    """
