"""Rules of buckets, object stores and services."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from jetarrow.migrate.rules.rule import Found, Module, argument, is_identity, is_none, keyword, rule, text_of

BUCKETS, OBJECTS, SERVICES = "key-value", "object-stores", "services"
# nats-py's own check of keys, which `purge` does not make.
_KEY = re.compile(r"[-/_=.a-zA-Z0-9]+")
_KEYED = "get put create update delete"


def _is_key(text: str) -> bool:
    return bool(_KEY.fullmatch(text)) and all(text.split("."))


@rule("key", anchor=BUCKETS, remedy="use keys without empty tokens")
def key(node: ast.Call, module: Module) -> Iterator[Found]:
    """A key that is refused."""
    purges = module.calls(node, "KeyValue", "purge")
    if not purges and not (module.calls(node, "KeyValue", _KEYED) and keyword(node, "validate_keys") is None):
        return
    given = argument(node, "key", 0)
    text = text_of(module.names.single(given))
    if given is not None and text is not None and (not _is_key(text) if purges else ".." in text):
        yield given, f"key {text!r} raises InvalidKeyError"


@rule(
    "value-none", anchor=BUCKETS, node=ast.Compare, remedy="catch KeyNotFoundError, and compare with b'' if it matters"
)
def value_none(node: ast.Compare, module: Module) -> Iterator[Found]:
    """A comparison of a value with None."""
    match node.left:
        case ast.Attribute(attr="value", value=owner) if module.is_object(owner, "Entry"):
            if is_identity(node) and is_none(node.comparators[0]):
                yield node, "get raises KeyNotFoundError for an expired key, and an empty value is b'', not None"


@rule("entry-time", anchor=BUCKETS, node=ast.Compare, remedy="remove the comparison")
def entry_time(node: ast.Compare, module: Module) -> Iterator[Found]:
    """A comparison of an entry's time with None."""
    match node.left:
        case ast.Attribute(attr="created" | "delta" as name, value=owner) if module.is_object(owner, "Entry"):
            if is_identity(node) and is_none(node.comparators[0]):
                yield node, f"{name} is set after get, not None"


@rule("bucket-placement", anchor=BUCKETS, remedy="check that the cluster has servers with these tags")
def bucket_placement(node: ast.Call, module: Module) -> Iterator[Found]:
    """A placement that nats-py ignored."""
    if module.creates(node, "KeyValueConfig") or module.calls_unique(node, "create_key_value"):
        given = keyword(node, "placement")
        if given is not None and not is_none(given.value):
            yield given.value, "placement of a bucket is passed to the server, not ignored"


@rule("key-filters", anchor=BUCKETS, remedy="write subjects such as 'a', 'orders.*' or 'orders.>'")
def key_filters(node: ast.Call, module: Module) -> Iterator[Found]:
    """Filters of keys."""
    given = argument(node, "filters", 0) if module.calls(node, "KeyValue", "keys") else None
    if given is not None and not is_none(given):
        yield given, "filters of keys match as subjects, not as parts of the key"


@rule("headers-only", anchor=BUCKETS, remedy="remove headers_only=True if the values are read")
def headers_only(node: ast.Call, module: Module) -> Iterator[Found]:
    """A watch without values."""
    if module.calls(node, "KeyValue", "watch watchall") or module.calls_unique(node, "watchall"):
        given = keyword(node, "headers_only")
        if given is not None and isinstance(given.value, ast.Constant) and given.value.value is True:
            yield given.value, "watch(headers_only=True) leaves the values out"


@rule("object-headers", anchor=OBJECTS, node=ast.Attribute, remedy="read lists of values")
def object_headers(node: ast.Attribute, module: Module) -> Iterator[Found]:
    """Headers of an object."""
    if node.attr == "headers" and isinstance(node.ctx, ast.Load) and module.is_object(node.value, "ObjectInfo"):
        yield node, "headers of an object are lists of values"


@rule(
    "object-time",
    anchor=OBJECTS,
    node=ast.Attribute,
    remedy="store a time of the writer in the headers if it is needed",
)
def object_time(node: ast.Attribute, module: Module) -> Iterator[Found]:
    """Time of an object."""
    if node.attr == "mtime" and isinstance(node.ctx, ast.Load) and module.is_object(node.value, "ObjectInfo"):
        yield node, "mtime is the time at which the server stored the object, not the writer's clock"


@rule("store-name", anchor=OBJECTS, remedy="remove the line break from the name")
def store_name(node: ast.Call, module: Module) -> Iterator[Found]:
    """A name of a store that is refused."""
    given = argument(node, "bucket", 0) if module.calls(node, "JetStreamContext", "object_store") else None
    text = text_of(module.names.single(given))
    if given is not None and text is not None and text.endswith("\n"):
        yield given, f"object_store({text!r}) raises InvalidBucketNameError"


@rule("service-errors", anchor=SERVICES, remedy="check alerts on the number of errors")
def service_errors(node: ast.Call, module: Module) -> Iterator[Found]:
    """A response with an error."""
    if module.calls(node, "Request", "respond_error") or module.calls_unique(node, "respond_error"):
        yield node, "respond_error counts as an error in the stats of the service"
