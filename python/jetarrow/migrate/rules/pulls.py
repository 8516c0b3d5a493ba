"""Rules of pull subscriptions: pending limits, inboxes, heartbeats."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from jetarrow.migrate.rules.rule import Found, Module, is_none, keyword, rule

RESULTS, METHODS = "arguments-and-results", "methods"


@rule("pull-limits", anchor=RESULTS, remedy="check that they are above a request's messages and a message's size")
def pull_limits(node: ast.Call, module: Module) -> Iterator[Found]:
    """Pending limits of a pull subscription."""
    if module.calls_unique(node, "pull_subscribe pull_subscribe_bind"):
        for name in ("pending_msgs_limit", "pending_bytes_limit"):
            given = keyword(node, name)
            if given is not None:
                yield given.value, f"{name} of a pull subscription limits requests, and drops no messages"


@rule("pull-inbox", anchor=METHODS, remedy="set inbox_prefix of connect")
def pull_inbox(node: ast.Call, module: Module) -> Iterator[Found]:
    """The inbox of a pull subscription."""
    given = keyword(node, "inbox_prefix") if module.calls_unique(node, "pull_subscribe pull_subscribe_bind") else None
    if given is not None and not is_none(given.value):
        yield given.value, "inbox_prefix of a pull subscription is ignored"


@rule("negative-heartbeat", anchor=RESULTS, remedy="remove it")
def negative_heartbeat(node: ast.Call, module: Module) -> Iterator[Found]:
    """A negative heartbeat."""
    given = keyword(node, "heartbeat") if module.calls(node, "PullSubscription", "fetch") else None
    if given is not None and isinstance(given.value, ast.UnaryOp) and isinstance(given.value.op, ast.USub):
        yield given.value, "fetch with a negative heartbeat raises ValueError"
