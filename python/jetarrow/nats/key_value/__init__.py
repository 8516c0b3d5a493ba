"""Key-value buckets under the names of nats-key-value, on jetarrow's connection.

Example:
    client = await nats.client.connect("nats://localhost:4222")
    js = nats.jetstream.new(client)
    bucket = await nats.key_value.create_key_value(js, KeyValueConfig(bucket="settings"))
    await bucket.put("limits.eu", b"10")
"""

from __future__ import annotations

from ..client.errors import StatusError as StatusError
from ..jetstream.errors import JetStreamError as JetStreamError
from ..jetstream.errors import MessageNotFoundError as MessageNotFoundError
from ..jetstream.errors import StreamNotFoundError as StreamNotFoundError
from .buckets import (
    create_key_value,
    create_or_update_key_value,
    delete_key_value,
    key_value,
    key_value_bucket_names,
    key_value_buckets,
    update_key_value,
)
from .entries import KeyValueConfig, KeyValueEntry, KeyValueOp, KeyValueStatus
from .errors import (
    BadBucketError,
    BucketExistsError,
    BucketNotFoundError,
    HistoryTooLargeError,
    InvalidBucketNameError,
    InvalidKeyError,
    KeyExistsError,
    KeyNotFoundError,
    KeyValueError,
)
from .keys import EXPECTED_LAST_SUBJECT_SEQUENCE as EXPECTED_LAST_SUBJECT_SEQUENCE
from .keys import KV_DEL as KV_DEL
from .keys import KV_MAX_HISTORY as KV_MAX_HISTORY
from .keys import KV_OP as KV_OP
from .keys import KV_PURGE as KV_PURGE
from .keys import MARKER_REASON as MARKER_REASON
from .keys import MSG_ROLLUP as MSG_ROLLUP
from .keys import MSG_ROLLUP_SUBJECT as MSG_ROLLUP_SUBJECT
from .keys import MSG_TTL as MSG_TTL
from .keys import VALID_BUCKET_RE as VALID_BUCKET_RE
from .keys import VALID_KEY_RE as VALID_KEY_RE
from .keys import VALID_SEARCH_KEY_RE as VALID_SEARCH_KEY_RE
from .store import KeyValue
from .watcher import KeyHistory, KeyLister, KeyWatcher

__all__ = [
    "BadBucketError",
    "BucketExistsError",
    "BucketNotFoundError",
    "HistoryTooLargeError",
    "InvalidBucketNameError",
    "InvalidKeyError",
    "KeyExistsError",
    "KeyHistory",
    "KeyLister",
    "KeyNotFoundError",
    "KeyValue",
    "KeyValueConfig",
    "KeyValueEntry",
    "KeyValueError",
    "KeyValueOp",
    "KeyValueStatus",
    "KeyWatcher",
    "create_key_value",
    "create_or_update_key_value",
    "delete_key_value",
    "key_value",
    "key_value_bucket_names",
    "key_value_buckets",
    "update_key_value",
]
