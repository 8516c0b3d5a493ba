"""JetStream's API: JSON over request and reply."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, Protocol

from jetarrow._jetarrow import Msg, check_subject
from jetarrow.core.arguments import FOREVER
from jetarrow.core.errors import Error, NoRespondersError
from jetarrow.core.session import Session
from jetarrow.core.suggestions import did_you_mean, nearest_name
from jetarrow.jetstream.api_requests import ApiRequest, describe_request
from jetarrow.jetstream.errors import (
    APIError,
    JetStreamNotEnabledError,
    MessageNotFoundError,
    NotFoundError,
    SubjectOverlapError,
)
from jetarrow.jetstream.filter_check import FilterCheck
from jetarrow.jetstream.models.constants import Header
from jetarrow.jetstream.models.error_codes import ErrorCode
from jetarrow.jetstream.not_found import (
    expect_not_found,
    is_not_found_expected,
    not_found_error,
)

# Error codes of the server that verbs handle.
STREAM_NAME_IN_USE = ErrorCode.STREAM_NAME_EXIST
STREAM_NOT_FOUND = ErrorCode.STREAM_NOT_FOUND
CONSUMER_NOT_FOUND = ErrorCode.CONSUMER_NOT_FOUND
CONSUMER_EXISTS = ErrorCode.CONSUMER_ALREADY_EXISTS
# Most seconds of a request for names, from which a suggestion for a misspelt name is made.
NAMES_WAIT = 1.0
# Most subjects of a rejected configuration for which the other stream is looked up.
OVERLAP_LOOKUPS = 8


class HasSession(Protocol):
    """A client, async or sync."""

    @property
    def _session(self) -> Session: ...


def _encode(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body).encode()
    except TypeError as error:
        raise TypeError(f"{_unserializable_field(body)}: {error}") from None


def _unserializable_field(value: Any) -> str:
    """The dotted name of the field that JSON cannot represent."""
    parts = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        try:
            json.dumps(part)
        except TypeError:
            return ".".join(filter(None, (str(name), _unserializable_field(part))))
    return ""


class JetStreamApi:
    """Sends requests to JetStream, and raises the server's errors.

    Attributes:
        session: The connection.
        prefix: First tokens of the API's subjects.
        timeout: Seconds to wait for a response.
        filters: Warns of filters that match no subject of their stream.
    """

    def __init__(self, session: Session, prefix: str, timeout: float | None) -> None:
        check_subject(prefix)
        self.session = session
        self.prefix = prefix
        self.timeout = FOREVER if timeout is None else timeout
        self.filters = FilterCheck()

    async def request(self, verb: str, body: Mapping[str, Any] | None = None, *, timeout: float | None = None) -> Any:
        """Sends a request, and returns the decoded response; raises the error in it."""
        payload = b"" if body is None else _encode(body)
        session = self.session
        call = session.native.request(f"{self.prefix}.{verb}", payload, timeout=timeout or self.timeout)
        try:
            text = await session.run(call)
        except NoRespondersError:
            raise JetStreamNotEnabledError(
                message=f"{describe_request(verb, body).text}: the server answered 503 No Responders for"
                f" {self.prefix}.{verb}; enable JetStream, or check the domain and the prefix"
            ) from None
        try:
            answer: Any = json.loads(text)
            failure = answer.get("error")
        except (ValueError, AttributeError):
            raise APIError(
                message=f"{describe_request(verb, body).text}: the response is not a JSON object; check whether another"
                f" program answers on {self.prefix}"
            ) from None
        if failure:
            raise await self._explain(failure, describe_request(verb, body), body or {})
        return answer

    async def _explain(self, failure: Mapping[str, Any], request: ApiRequest, body: Mapping[str, Any]) -> APIError:
        """The error of a response, with the names of the request's objects."""
        names = {"stream": request.stream or None, "consumer": request.consumer or None}
        error = APIError.build({**names, **failure}, message=request.text)
        if isinstance(error, NotFoundError):
            return await self.explain_not_found(error, request.stream, request.consumer)
        if isinstance(error, SubjectOverlapError):
            return await self._explain_overlap(error, request, body)
        return error

    async def _explain_overlap(
        self, error: SubjectOverlapError, request: ApiRequest, body: Mapping[str, Any]
    ) -> SubjectOverlapError:
        """Adds the subject and the other stream to an error of overlapping subjects, if the server names them."""
        for subject in (body.get("subjects") or [request.stream])[:OVERLAP_LOOKUPS]:
            streams, _ = await self._names("STREAM.NAMES", {"subject": subject})
            if others := [name for name in streams if name != request.stream]:
                text = f"{request.text}: stream {others[0]!r} stores subjects of {subject!r}"
                return type(error)(
                    error.code, error.description, error.err_code, error.stream, message=text, subject=subject
                )
        return error

    async def explain_not_found(
        self, error: NotFoundError, stream: str, consumer: str = "", *, near: bool = True
    ) -> NotFoundError:
        """Adds the names and the nearest existing name to a "not found" error of a stream or consumer.

        Args:
            error: The server's error.
            stream: The requested stream.
            consumer: The requested consumer; empty if a stream was requested.
            near: Whether the server may be asked for names.
        """
        if error.err_code not in (STREAM_NOT_FOUND, CONSUMER_NOT_FOUND) or is_not_found_expected():
            return error
        consumer = consumer if error.err_code == CONSUMER_NOT_FOUND else ""
        names: list[str] = []
        if near:
            names, _ = await self._names(f"CONSUMER.NAMES.{stream}" if consumer else "STREAM.NAMES")
        return not_found_error(error, stream, consumer, nearest_name(consumer or stream, names))

    async def _names(self, verb: str, body: Mapping[str, Any] | None = None) -> tuple[list[str], bool]:
        """The first page of a list of names, and whether it is complete; an empty page if the request fails."""
        with expect_not_found(), suppress(Error):
            answer = await self.request(verb, body, timeout=min(self.timeout, NAMES_WAIT))
            names = answer.get("streams") or answer.get("consumers") or []
            return names, len(names) == answer.get("total")
        return [], False

    async def pages(self, verb: str, key: str, body: Mapping[str, Any] | None = None) -> AsyncIterator[Any]:
        """The entries of a list; pages are requested when they are needed."""
        offset = 0
        while True:
            answer = await self.request(verb, {**(body or {}), "offset": offset})
            entries = answer.get(key) or []
            for entry in entries:
                yield entry
            # `missing` lists entries of a cluster for which no server answered in time. They count for the offset.
            page = len(entries) + len(answer.get("missing") or ())
            offset += page
            if not page or offset >= answer.get("total", 0):
                return

    async def direct(self, verb: str, query: Mapping[str, Any] | None) -> Msg:
        """Sends a request whose response is a message, not JSON (ADR-31)."""
        payload = b"" if query is None else json.dumps(query).encode()
        session = self.session
        call = session.native.request_msg(session, f"{self.prefix}.{verb}", payload, timeout=self.timeout)
        try:
            return await session.run(call)
        except NoRespondersError:
            raise await self.no_direct_responders(verb, query) from None

    async def no_direct_responders(self, verb: str, query: Mapping[str, Any] | None) -> NoRespondersError:
        """The error of a direct get that the server answered with 503 No Responders."""
        request = describe_request(verb, query)
        stream = request.stream
        names, all_of_them = await self._names("STREAM.NAMES")
        if stream in names:
            return NoRespondersError(
                f"{request.text}: 503 No Responders; set allow_direct=True for stream {stream!r}, or get without direct"
            )
        text = f"stream {stream!r} does not exist"
        text = text if all_of_them else f"{text}, or does not have allow_direct"
        near = did_you_mean(nearest_name(stream, names))
        return NoRespondersError(f"{request.text}: 503 No Responders; {text}{near}")


def status_error(verb: str, query: Mapping[str, Any] | None, headers: Mapping[str, str]) -> APIError:
    """The error of a status message that answers a request for messages, or for a backup."""
    request = describe_request(verb, query)
    status, description = headers.get(Header.STATUS, ""), headers.get(Header.DESCRIPTION)
    code = int(status) if status.isdecimal() else None
    if code == MessageNotFoundError._code:
        return MessageNotFoundError(code, description, stream=request.stream, message=request.text)
    return APIError.build({"code": code, "description": description, "stream": request.stream}, message=request.text)
