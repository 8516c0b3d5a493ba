"""Rules of JetStream: consumers, configurations, durations, times, acknowledgements."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from jetarrow.jetstream.models import (
    AckPolicy,
    DeliverPolicy,
    DiscardPolicy,
    PersistMode,
    ReplayPolicy,
    RetentionPolicy,
    StorageType,
    StoreCompression,
)
from jetarrow.migrate.inference import Ref
from jetarrow.migrate.rules.rule import (
    Found,
    Module,
    argument,
    is_complete,
    is_identity,
    is_none,
    keyword,
    rule,
    text_of,
)
from jetarrow.migrate.rules.values import is_naive_time, number

RESULTS, DEFAULTS = "arguments-and-results", "defaults"
_CONFIGS = "StreamConfig ConsumerConfig KeyValueConfig ObjectStoreConfig StreamConsumerLimits StreamSource"
_CREATING = "add_stream update_stream add_consumer create_key_value create_object_store"
_DURATIONS = frozenset(
    "max_age duplicate_window subject_delete_marker_ttl ack_wait idle_heartbeat inactive_threshold ttl".split()  # noqa: SIM905
)
_NANOSECONDS = 1e9
_WORDS = {
    "retention": RetentionPolicy,
    "storage": StorageType,
    "discard": DiscardPolicy,
    "compression": StoreCompression,
    "persist_mode": PersistMode,
    "ack_policy": AckPolicy,
    "deliver_policy": DeliverPolicy,
    "replay_policy": ReplayPolicy,
}


def _configures(node: ast.Call, module: Module) -> bool:
    """Return whether the keywords of a call are fields of a configuration."""
    return module.creates(node, _CONFIGS) or module.calls_unique(node, _CREATING)


@rule("duration", anchor=RESULTS, remedy="write seconds or a timedelta")
def duration(node: ast.Call, module: Module) -> Iterator[Found]:
    """A duration of 1e9 or more."""
    for one in node.keywords:
        if one.arg in _DURATIONS and _configures(node, module):
            value = number(one.value, module)
            if value is not None and value >= _NANOSECONDS:
                yield one.value, f"{one.arg} of {value:,.0f} is read as nanoseconds, with a warning"


@rule("naive-time", anchor=RESULTS, remedy="pass a time with a zone, such as datetime.now(timezone.utc)")
def naive_time(node: ast.Call, module: Module) -> Iterator[Found]:
    """A time without a zone."""
    given = keyword(node, "opt_start_time") if _configures(node, module) else None
    if given is not None and is_naive_time(given.value, module):
        yield given.value, "a datetime without a zone is local time, not UTC"


@rule("word", anchor=RESULTS, remedy="use one of the valid words")
def word(node: ast.Call, module: Module) -> Iterator[Found]:
    """A word that no server has."""
    for one in node.keywords:
        choices = _WORDS.get(one.arg or "")
        text = text_of(module.names.single(one.value))
        if choices is None or text is None or not _configures(node, module):
            continue
        valid = {str(member.value).lower() for member in choices} | {member.name.lower() for member in choices}
        if text.strip().lower() not in valid:
            yield one.value, f"{one.arg}={text!r} raises ValueError"


def _config(node: ast.Call, place: int, module: Module) -> ast.Call | None:
    """Return the creation of the configuration that a call of a subscription gets."""
    found = module.names.single(argument(node, "config", place))
    is_config = isinstance(found, ast.Call) and module.creates(found, "ConsumerConfig") and is_complete(found)
    return found if is_config and isinstance(found, ast.Call) else None


def _acknowledges(config: ast.Call, module: Module) -> bool:
    """Return whether a consumer's acknowledgements are explicit or cumulative, as far as the source shows."""
    given = keyword(config, "ack_policy")
    if given is None:
        return True
    found = module.names.of(given.value)
    name = found.path.rpartition(".")[2] if isinstance(found, Ref) else text_of(given.value) or ""
    return name.removeprefix("ACK_").lower() in ("explicit", "all")


@rule("max-ack-pending", anchor=DEFAULTS, remedy="set max_ack_pending=1000 in its config to keep the server's default")
def max_ack_pending(node: ast.Call, module: Module) -> Iterator[Found]:
    """A consumer with the default limit of unacknowledged messages."""
    if not module.calls_unique(node, "pull_subscribe") or not is_complete(node):
        return
    given = argument(node, "config", 3)
    config = _config(node, 3, module)
    unset = config is not None and keyword(config, "max_ack_pending") is None and _acknowledges(config, module)
    if given is None or is_none(given) or unset:
        yield node, "pull_subscribe creates a consumer with max_ack_pending 100,000, not 1,000"


@rule(
    "filter-subject", anchor=RESULTS, remedy="remove filter_subject from the config if the subject shall be the filter"
)
def filter_subject(node: ast.Call, module: Module) -> Iterator[Found]:
    """A subscription with a subject and another filter."""
    if not (module.calls(node, "JetStreamContext", "subscribe") or module.calls_unique(node, "pull_subscribe")):
        return
    config = _config(node, 3 if module.calls_unique(node, "pull_subscribe") else 5, module)
    given = keyword(config, "filter_subject") if config else None
    where = argument(node, "subject", 0)
    if given is None or is_none(given.value) or where is None:
        return
    first, second = text_of(module.names.single(given.value)), text_of(module.names.single(where))
    if first is not None and second is not None and first != second:
        yield node, f"the consumer filters by {first!r} of its config, not by the subject {second!r}"


@rule("bind-order", anchor=RESULTS, remedy="write consumer= and stream=, which save a request")
def bind_order(node: ast.Call, module: Module) -> Iterator[Found]:
    """A consumer and a stream by position."""
    if module.calls_unique(node, "pull_subscribe_bind") and len(node.args) == 2 and is_complete(node):
        yield node, "pull_subscribe_bind with two positional arguments asks the server which one is the stream"


@rule("purge-result", anchor=RESULTS, node=ast.Compare, remedy="test the result itself, or compare it with ==")
def purge_result(node: ast.Compare, module: Module) -> Iterator[Found]:
    """A comparison of a purge's result by identity."""
    if is_identity(node) and module.is_object(node.left, "PurgeResult"):
        right = node.comparators[0]
        if isinstance(right, ast.Constant) and isinstance(right.value, bool):
            yield node, "the result of purge_stream equals True but is not True"


@rule("duplicate", anchor=RESULTS, node=ast.Compare, remedy="test the value itself, or compare it with False")
def duplicate(node: ast.Compare, module: Module) -> Iterator[Found]:
    """A comparison of `PubAck.duplicate` with None."""
    match node.left:
        case ast.Attribute(attr="duplicate", value=owner) if module.is_object(owner, "PubAck"):
            if is_identity(node) and is_none(node.comparators[0]):
                yield node, "PubAck.duplicate is False, not None, if a message is not a duplicate"


@rule("account-info", anchor=RESULTS, remedy="set totals=False if only the account's limits are read")
def account_info(node: ast.Call, module: Module) -> Iterator[Found]:
    """A request for the account's information."""
    if module.calls(node, "JetStreamContext JetStreamManager", "account_info") and is_complete(node):
        yield node, "account_info also counts messages, with a request per 256 streams"


@rule(
    "async-pending",
    anchor=DEFAULTS,
    remedy="set publish_async_max_pending=4000 to keep nats-py's limit",
)
def async_pending(node: ast.Call, module: Module) -> Iterator[Found]:
    """A context with the default limit of pending publishes, by which the module publishes asynchronously."""
    if not module.calls(node, "JetStreamContext", "publish_async") or not isinstance(node.func, ast.Attribute):
        return
    made = module.names.created(node.func.value)
    if not isinstance(made, ast.Call) or not module.calls(made, "Client", "jetstream") or not is_complete(made):
        return
    if argument(made, "publish_async_max_pending", 3) is None:
        yield made, "publish_async has no fixed limit of 4,000 pending messages: the limit adapts to the connection"
