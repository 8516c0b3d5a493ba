"""The JetStream context, under nats-py's module path."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# Imports of the form `X as X` exist in nats-py's module, too.
from jetarrow._jetarrow import Msg as Msg
from jetarrow.core.session import Headers
from jetarrow.core.subscription import Subscription as Subscription
from jetarrow.jetstream.arrow import ArrowArray, ArrowProducer, ArrowSchema, ArrowStream
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.jetstream.errors import BadBucketError as BadBucketError
from jetarrow.jetstream.errors import BucketNotFoundError as BucketNotFoundError
from jetarrow.jetstream.errors import FetchTimeoutError as FetchTimeoutError
from jetarrow.jetstream.errors import InvalidBucketNameError as InvalidBucketNameError
from jetarrow.jetstream.errors import NotFoundError as NotFoundError
from jetarrow.jetstream.fetch import PullSubscription as PullSubscription
from jetarrow.jetstream.kv.names import KV_MAX_HISTORY as KV_MAX_HISTORY
from jetarrow.jetstream.kv.names import KV_PRE_TEMPLATE as KV_PRE_TEMPLATE
from jetarrow.jetstream.kv.names import KV_STREAM_TEMPLATE as KV_STREAM_TEMPLATE
from jetarrow.jetstream.kv.names import VALID_BUCKET_RE as VALID_BUCKET_RE
from jetarrow.jetstream.manager import JetStreamManager as JetStreamManager
from jetarrow.jetstream.models import DEFAULT_JS_SUB_PENDING_BYTES_LIMIT as DEFAULT_JS_SUB_PENDING_BYTES_LIMIT
from jetarrow.jetstream.models import DEFAULT_JS_SUB_PENDING_MSGS_LIMIT as DEFAULT_JS_SUB_PENDING_MSGS_LIMIT
from jetarrow.jetstream.objects.names import OBJ_ALL_CHUNKS_PRE_TEMPLATE as OBJ_ALL_CHUNKS_PRE_TEMPLATE
from jetarrow.jetstream.objects.names import OBJ_ALL_META_PRE_TEMPLATE as OBJ_ALL_META_PRE_TEMPLATE
from jetarrow.jetstream.objects.names import OBJ_STREAM_TEMPLATE as OBJ_STREAM_TEMPLATE
from jetarrow.jetstream.ordered import OrderedConsumer as OrderedConsumer
from jetarrow.jetstream.publish_result import PublishResult as PublishResult
from jetarrow.jetstream.publisher import Publisher as Publisher
from jetarrow.jetstream.push import PushSubscription as PushSubscription
from jetarrow.jetstream.reader import Reader as Reader
from jetarrow.jetstream.subscribe import Callback
from jetarrow.js import api as api

if TYPE_CHECKING:
    from jetarrow.jetstream.kv.key_value import KeyValue as KeyValue
    from jetarrow.jetstream.objects.object_store import ObjectStore as ObjectStore
else:
    # Few programs use stores: their modules are not loaded without need.
    _STORES = {"KeyValue": "kv.key_value", "ObjectStore": "objects.object_store"}

    def __getattr__(name: str) -> Any:
        if name in _STORES:
            return getattr(importlib.import_module(f"jetarrow.jetstream.{_STORES[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ArrowArray",
    "ArrowProducer",
    "ArrowSchema",
    "ArrowStream",
    "Callback",
    "Headers",
    "JetStreamContext",
]
