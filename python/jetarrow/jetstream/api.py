"""Requests to JetStream's API, which all of management is made of."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from jetarrow.core.errors import NoRespondersError
from jetarrow.jetstream import models
from jetarrow.jetstream.errors import APIError, ServiceUnavailableError

if TYPE_CHECKING:
    from jetarrow.core.client import Client

# The server's numbers of the errors that a verb handles itself.
STREAM_NAME_IN_USE = 10058
STREAM_NOT_FOUND = 10059
CONSUMER_NOT_FOUND = 10014
CONSUMER_EXISTS = 10148


class Requests:
    """A connection, the first tokens of the API's subjects, and how long an answer may take."""

    def __init__(
        self,
        conn: Client,
        prefix: str = models.DEFAULT_PREFIX,
        timeout: float = 5.0,
    ) -> None:
        self._nc = conn
        self._prefix = prefix
        self._timeout = timeout

    async def _api(self, verb: str, body: Mapping[str, Any] | None = None, *, timeout: float | None = None) -> Any:
        """One request; the decoded answer, which has no error in it."""
        payload = b"" if body is None else json.dumps(body).encode()
        call = self._nc._native.request(f"{self._prefix}.{verb}", payload, timeout=timeout or self._timeout)
        try:
            text = await self._nc._run(call)
        except NoRespondersError:
            raise ServiceUnavailableError(
                message=f"{verb}: no one listens on {self._prefix}; is JetStream on, and the domain right?"
            ) from None
        try:
            answer: Any = json.loads(text)
            failure = answer.get("error")
        except (ValueError, AttributeError):
            raise APIError(message=f"{verb}: the answer is not a JSON object, so it is not a server's") from None
        if failure:
            raise APIError.build(failure, message=f"{verb} failed")
        return answer

    async def _pages(self, verb: str, key: str, body: Mapping[str, Any] | None = None) -> AsyncIterator[Any]:
        """The entries of a list, page after page as they are needed."""
        offset = 0
        while True:
            answer = await self._api(verb, {**(body or {}), "offset": offset})
            entries = answer.get(key) or []
            for entry in entries:
                yield entry
            # A cluster names those of which nobody answered in time; they count.
            page = len(entries) + len(answer.get("missing") or ())
            offset += page
            if not page or offset >= answer.get("total", 0):
                return


def checked(what: str, name: str | None) -> str:
    """A name that becomes one token of an API subject."""
    if not name or any(c in ".*>/\\" or c.isspace() or not c.isprintable() for c in name):
        raise ValueError(
            f"{what} name {name!r} is not valid: no white space, dots, wildcards or path separators, "
            "and at least one character"
        )
    return name
