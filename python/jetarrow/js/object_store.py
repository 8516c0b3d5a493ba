"""Object stores, under nats-py's module path; re-exports `jetarrow.jetstream.objects`."""

from __future__ import annotations

# Imports of the form `X as X` exist in nats-py's module, too.
from jetarrow.jetstream.errors import BadObjectMetaError as BadObjectMetaError
from jetarrow.jetstream.errors import DigestMismatchError as DigestMismatchError
from jetarrow.jetstream.errors import LinkIsABucketError as LinkIsABucketError
from jetarrow.jetstream.errors import NotFoundError as NotFoundError
from jetarrow.jetstream.errors import ObjectAlreadyExists as ObjectAlreadyExists
from jetarrow.jetstream.errors import ObjectDeletedError as ObjectDeletedError
from jetarrow.jetstream.errors import ObjectNotFoundError as ObjectNotFoundError
from jetarrow.jetstream.kv.names import MSG_ROLLUP_SUBJECT as MSG_ROLLUP_SUBJECT
from jetarrow.jetstream.objects.names import OBJ_ALL_CHUNKS_PRE_TEMPLATE as OBJ_ALL_CHUNKS_PRE_TEMPLATE
from jetarrow.jetstream.objects.names import OBJ_ALL_META_PRE_TEMPLATE as OBJ_ALL_META_PRE_TEMPLATE
from jetarrow.jetstream.objects.names import OBJ_CHUNKS_PRE_TEMPLATE as OBJ_CHUNKS_PRE_TEMPLATE
from jetarrow.jetstream.objects.names import OBJ_DEFAULT_CHUNK_SIZE as OBJ_DEFAULT_CHUNK_SIZE
from jetarrow.jetstream.objects.names import OBJ_DIGEST_TEMPLATE as OBJ_DIGEST_TEMPLATE
from jetarrow.jetstream.objects.names import OBJ_DIGEST_TYPE as OBJ_DIGEST_TYPE
from jetarrow.jetstream.objects.names import OBJ_META_PRE_TEMPLATE as OBJ_META_PRE_TEMPLATE
from jetarrow.jetstream.objects.names import OBJ_NO_PENDING as OBJ_NO_PENDING
from jetarrow.jetstream.objects.names import OBJ_STREAM_TEMPLATE as OBJ_STREAM_TEMPLATE
from jetarrow.jetstream.objects.names import VALID_BUCKET_RE as VALID_BUCKET_RE
from jetarrow.jetstream.objects.names import VALID_KEY_RE as VALID_KEY_RE
from jetarrow.jetstream.objects.object_store import ObjectStore
from jetarrow.jetstream.objects.status import ObjectResult, ObjectStoreStatus, OrphanedChunks
from jetarrow.jetstream.objects.watch import ObjectWatcher
from jetarrow.js import api as api

__all__ = ["ObjectResult", "ObjectStore", "ObjectStoreStatus", "ObjectWatcher", "OrphanedChunks"]
