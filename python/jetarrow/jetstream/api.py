"""JetStream's API: JSON over request and reply, which all of management is made of."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from jetarrow._jetarrow import Msg, check_subject
from jetarrow.core.arguments import FOREVER
from jetarrow.core.errors import NoRespondersError
from jetarrow.core.session import Session
from jetarrow.jetstream.errors import APIError, ServiceUnavailableError
from jetarrow.jetstream.models.error_codes import ErrorCode

# The server's numbers of the errors that a verb handles itself.
STREAM_NAME_IN_USE = ErrorCode.STREAM_NAME_EXIST
STREAM_NOT_FOUND = ErrorCode.STREAM_NOT_FOUND
CONSUMER_NOT_FOUND = ErrorCode.CONSUMER_NOT_FOUND
CONSUMER_EXISTS = ErrorCode.CONSUMER_ALREADY_EXISTS


class HasSession(Protocol):
    """A client of either face."""

    @property
    def _session(self) -> Session: ...


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body).encode()
    except TypeError as error:
        raise TypeError(f"{_refused(body)}: {error}") from None


def _refused(value: Any) -> str:
    """The name of what has no JSON."""
    parts = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        try:
            json.dumps(part)
        except TypeError:
            return ".".join(filter(None, (str(name), _refused(part))))
    return ""


class JetStreamApi:
    """Sends requests to JetStream, and turns what the server refuses into errors.

    Attributes:
        session: The connection, and how to wait.
        prefix: First tokens of the API's subjects.
        timeout: Seconds an answer may take.
    """

    def __init__(self, session: Session, prefix: str, timeout: float | None) -> None:
        check_subject(prefix)
        self.session = session
        self.prefix = prefix
        self.timeout = FOREVER if timeout is None else timeout

    async def request(self, verb: str, body: Mapping[str, Any] | None = None, *, timeout: float | None = None) -> Any:
        """One request; the decoded answer, which has no error in it."""
        payload = b"" if body is None else _encoded(body)
        session = self.session
        call = session.native.request(f"{self.prefix}.{verb}", payload, timeout=timeout or self.timeout)
        try:
            text = await session.run(call)
        except NoRespondersError:
            raise ServiceUnavailableError(
                message=f"{verb}: no one listens on {self.prefix}; is JetStream on, and the domain right?"
            ) from None
        try:
            answer: Any = json.loads(text)
            failure = answer.get("error")
        except (ValueError, AttributeError):
            raise APIError(message=f"{verb}: the answer is not a JSON object, so it is not a server's") from None
        if failure:
            raise APIError.build(failure, message=f"{verb} failed")
        return answer

    async def pages(self, verb: str, key: str, body: Mapping[str, Any] | None = None) -> AsyncIterator[Any]:
        """The entries of a list, page after page as they are needed."""
        offset = 0
        while True:
            answer = await self.request(verb, {**(body or {}), "offset": offset})
            entries = answer.get(key) or []
            for entry in entries:
                yield entry
            # A cluster names those of which no server answered in time; they count.
            page = len(entries) + len(answer.get("missing") or ())
            offset += page
            if not page or offset >= answer.get("total", 0):
                return

    async def direct(self, verb: str, query: Mapping[str, Any] | None) -> Msg:
        """One request whose answer is a message as it is, not JSON (ADR-31)."""
        payload = b"" if query is None else json.dumps(query).encode()
        session = self.session
        call = session.native.request_msg(session, f"{self.prefix}.{verb}", payload, timeout=self.timeout)
        try:
            return await session.run(call)
        except NoRespondersError:
            raise self.no_direct(verb) from None

    def no_direct(self, verb: str) -> NoRespondersError:
        """The error of a direct get that nobody answers."""
        return NoRespondersError(f"{verb}: nobody answers; there is no such stream, or it has not allow_direct")
