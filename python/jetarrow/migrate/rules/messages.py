"""Rules of messages, requests and exceptions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from jetarrow.migrate.inference import Ref
from jetarrow.migrate.nats_types import is_nats
from jetarrow.migrate.rules.rule import Found, Module, argument, is_none, keyword, rule

FRAMEWORKS, ERRORS, RESULTS = "frameworks-on-nats-py", "errors-and-lost-messages", "arguments-and-results"
_PRINTING = ("builtins.print", "builtins.str", "builtins.repr", "builtins.format")


def _is_class(node: ast.AST, name: str, module: Module) -> bool:
    found = module.names.of(node)
    return isinstance(found, Ref) and is_nats(found.path) and found.path.rpartition(".")[2] == name


@rule("type-of-message", anchor=FRAMEWORKS, node=ast.Compare, remedy="write isinstance(msg, Msg)")
def type_of_message(node: ast.Compare, module: Module) -> Iterator[Found]:
    """A comparison of a message's type."""
    sides = [node.left, *node.comparators]
    calls = any(isinstance(one, ast.Call) and module.is_path(one.func, "builtins.type") for one in sides)
    if calls and len(sides) == 2 and any(_is_class(one, "Msg", module) for one in sides):
        yield node, "type(msg) is a subclass of Msg if the program added attributes to the message"


@rule(
    "message-text",
    anchor=FRAMEWORKS,
    node=(ast.Call, ast.FormattedValue),
    remedy="write msg.data for the payload",
)
def message_text(node: ast.Call | ast.FormattedValue, module: Module) -> Iterator[Found]:
    """The text of a message."""
    values = [node.value] if isinstance(node, ast.FormattedValue) else node.args
    if isinstance(node, ast.Call) and not module.is_path(node.func, *_PRINTING):
        return
    for one in values:
        if module.is_object(one, "Msg"):
            yield one, "the text of a message has at most 256 bytes of its payload"


def _caught(node: ast.ExceptHandler) -> list[ast.expr]:
    if isinstance(node.type, ast.Tuple):
        return node.type.elts
    return [node.type] if node.type is not None else []


@rule("cancelled-publish", anchor=ERRORS, node=ast.ExceptHandler, remedy="let CancelledError pass, or catch it as well")
def cancelled_publish(node: ast.ExceptHandler, module: Module) -> Iterator[Found]:
    """A handler of stalled publishes."""
    for one in _caught(node):
        if _is_class(one, "TooManyStalledMsgsError", module):
            yield one, "a cancelled publish_async raises CancelledError, not TooManyStalledMsgsError"


@rule("fetch-timeout", anchor=RESULTS, node=ast.ExceptHandler, remedy="check that this handler suits every timeout")
def fetch_timeout(node: ast.ExceptHandler, module: Module) -> Iterator[Found]:
    """A handler of timeouts of fetch."""
    for one in _caught(node):
        if _is_class(one, "FetchTimeoutError", module):
            yield one, "every timeout of fetch raises FetchTimeoutError, not only one after heartbeats"


@rule(
    "slow-consumer",
    anchor=ERRORS,
    node=(ast.Name, ast.Attribute),
    remedy="read sub.dropped for the number of messages",
)
def slow_consumer(node: ast.Name | ast.Attribute, module: Module) -> Iterator[Found]:
    """A use of the error of slow subscriptions."""
    if isinstance(node.ctx, ast.Load) and any(
        _is_class(node, name, module) for name in ("SlowConsumerError", "ErrSlowConsumer")
    ):
        yield node, "SlowConsumerError is reported once per burst of dropped messages"


@rule("old-style-headers", anchor=RESULTS, remedy="check that the responder accepts the headers")
def old_style_headers(node: ast.Call, module: Module) -> Iterator[Found]:
    """An old-style request with headers."""
    if not (module.calls(node, "Client", "request") or module.calls_unique(node, "request")):
        return
    style, headers = keyword(node, "old_style"), argument(node, "headers", 4)
    if style is None or headers is None or is_none(headers):
        return
    if isinstance(style.value, ast.Constant) and style.value.value is True:
        yield headers, "headers of old-style requests are sent"


@rule("reply-none", anchor=RESULTS, remedy="remove reply=None")
def reply_none(node: ast.Call, module: Module) -> Iterator[Found]:
    """A publish without a reply subject, by None."""
    given = argument(node, "reply", 2) if module.calls(node, "Client", "publish") else None
    if is_none(given) and given is not None:
        yield given, "reply=None is no reply, not the subject 'None'"
