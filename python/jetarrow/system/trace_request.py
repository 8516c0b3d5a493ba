"""Publishes a traced message and collects the events of the servers (ADR-41)."""

from __future__ import annotations

import json
from typing import Any

from jetarrow.core.arguments import seconds
from jetarrow.core.errors import (
    ConnectionDrainingError,
    Error,
    PermissionsViolationError,
    TimeoutError,
    UnsupportedError,
)
from jetarrow.core.servers import ServerVersion
from jetarrow.core.session import Headers, Session
from jetarrow.core.subscription import Subscription
from jetarrow.core.system_errors import SystemRequestError
from jetarrow.system.trace import Trace, events_of

# Headers of nats-server's msgtrace.go.
DESTINATION, ONLY, HOP = "Nats-Trace-Dest", "Nats-Trace-Only", "Nats-Trace-Hop"
# Maximum seconds between two servers' events of one message.
_STALL = 0.8
# A report over a gateway is lost if it overtakes the interest in its new subject. A message that is not delivered is
# sent again then: the subscription is known everywhere by now.
_ATTEMPTS = 2

# The reports of servers by hop.
Reports = dict[str, dict[str, Any]]


async def trace(
    session: Session,
    subject: str,
    payload: bytes | str,
    *,
    headers: Headers | None,
    deliver: bool,
    timeout: float,
) -> Trace:
    """Publishes a message with the headers of a trace, and collects the servers' events; see `Client.trace`."""
    seconds("timeout", timeout)
    if not timeout > 0:
        raise ValueError(f"timeout must be positive, not {timeout}")
    given = {name.lower() for name in headers or ()} & {DESTINATION.lower(), ONLY.lower(), HOP.lower()}
    if given:
        raise ValueError(f"header {min(given)!r} is set by trace() itself: leave it out")
    _require_version(session)
    if session.draining == "pubs":
        raise ConnectionDrainingError
    inbox = session.native.new_inbox()
    sub = Subscription(session, session.next_sid(), f"{inbox}.*")
    before = session.last_error
    deadline = session.now() + timeout
    reports: Reports = {}
    await sub._open()
    try:
        for attempt in range(1 if deliver else _ATTEMPTS):
            destination = f"{inbox}.{attempt}"
            extra = {DESTINATION: destination} if deliver else {DESTINATION: destination, ONLY: "true"}
            wait_for_room = session.send(subject, payload, "", {**(headers or {}), **extra})
            if wait_for_room is not None:
                await session.run(wait_for_room)
            found = await _collect(session, sub, destination, deadline)
            if _is_complete(found) or len(found) > len(reports):
                reports = found
            if _is_complete(reports) or not reports or session.now() >= deadline:
                break
    finally:
        sub._end()
    if not reports:
        raise _no_report(session, subject, timeout, before)
    hops = sorted(reports, key=_place)
    events = [event for hop in hops for event in events_of(hop, reports[hop])]
    return Trace(subject, events, sorted(_forwarded(reports) - reports.keys(), key=_place))


def _require_version(session: Session) -> None:
    """Rejects a server that does not trace: it would deliver the message."""
    text = session.native.server_version
    try:
        server = ServerVersion(text)
        is_old = (server.major, server.minor) < (2, 11)
    except ValueError:
        return
    if is_old:
        raise UnsupportedError("trace", "nats-server 2.11 or newer", f"this is {text}")


async def _collect(session: Session, sub: Subscription, destination: str, deadline: float) -> Reports:
    """The servers' reports to a subject, until every server that the message was forwarded to has reported."""
    reports: Reports = {}
    while not _is_complete(reports):
        left = deadline - session.now()
        if left <= 0:
            break
        try:
            msg = await sub.next_msg(min(left, _STALL) if reports else left)
        except TimeoutError:
            break
        if msg.subject != destination:
            # A late report of the attempt before.
            continue
        try:
            report = json.loads(msg.data)
            report["events"][0]["type"]
            hop = (report["request"]["header"].get(HOP) or [""])[0]
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise SystemRequestError(
                f"could not read a trace event ({type(error).__name__}: {error}); check the version of the servers"
            ) from None
        reports[hop] = report
    return reports


def _is_complete(reports: Reports) -> bool:
    """Whether the first server, and every server that the message was forwarded to, has reported."""
    return "" in reports and _forwarded(reports) <= reports.keys()


def _forwarded(reports: Reports) -> set[str]:
    """Hops of the servers that the message was forwarded to and that trace."""
    events = (event for report in reports.values() for event in report["events"])
    return {
        event["hop"] for event in events if event.get("type") == "eg" and event.get("hop") and not event.get("error")
    }


def _place(hop: str) -> list[int]:
    """A hop as a key for sorting: the order of the way."""
    return [int(number) for number in hop.split(".") if number.isdecimal()]


def _no_report(session: Session, subject: str, timeout: float, before: Exception | None) -> Error:
    """The error of a trace without any event."""
    last = session.last_error
    if isinstance(last, PermissionsViolationError) and last is not before:
        return PermissionsViolationError(
            f"could not trace {subject!r}: {str(last).removeprefix('nats: ')}; permit the user to publish to the"
            " subject and to its inboxes (_INBOX.>), which receive the events",
            operation=last.operation,
            subject=last.subject,
        )
    return TimeoutError(
        f"could not trace {subject!r}: no server reported an event within {timeout:g} s; check the connection, and that"
        " the user may publish to its inboxes (_INBOX.>), or pass a longer timeout="
    )
