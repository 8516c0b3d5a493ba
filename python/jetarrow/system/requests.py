"""Requests to servers: all of them, some, or one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from jetarrow._jetarrow import Msg
from jetarrow.core.arguments import seconds, text, texts
from jetarrow.core.errors import NoRespondersError, PermissionsViolationError, TimeoutError
from jetarrow.core.request import open_request
from jetarrow.core.session import Session
from jetarrow.core.suggestions import did_you_mean, nearest_name
from jetarrow.core.system_errors import ServerNotFoundError, SystemAccountError, SystemRequestError
from jetarrow.jetstream.models.base import Base
from jetarrow.system.models import ServerInfo, ServerStats

_T = TypeVar("_T", bound=Base)

_SUBJECT = "$SYS.REQ.SERVER"
# The public key that a server makes at its start: N and 55 digits of base32.
_ID = re.compile(r"N[A-Z2-7]{55}")


@dataclass
class ServerAnswer(Generic[_T]):
    """The answer of one server.

    Attributes:
        server: The server.
        data: Its response.
        rtt: Seconds from the request to the answer.
    """

    server: ServerInfo
    data: _T
    rtt: float = 0.0


class ServerAnswers(list[ServerAnswer[_T]]):
    """The answers of servers, sorted by name.

    Attributes:
        missing: Number of known servers that did not answer in time, because they failed, are stopped or are slow.
    """

    def __init__(self, answers: Sequence[ServerAnswer[_T]] = (), missing: int = 0) -> None:
        super().__init__(sorted(answers, key=lambda answer: (answer.server.name, answer.server.id)))
        self.missing = missing


@dataclass(frozen=True)
class Selection:
    """The servers that a request is sent to.

    Attributes:
        server: Name or id of one server.
        cluster: Servers of this cluster.
        domain: Servers of this JetStream domain.
        tags: Servers that have all of these tags.
    """

    server: str | None = None
    cluster: str | None = None
    domain: str | None = None
    tags: tuple[str, ...] = ()

    @property
    def filters(self) -> dict[str, Any]:
        """The filters as JSON of a request."""
        found: dict[str, Any] = {"cluster": self.cluster, "domain": self.domain, "tags": list(self.tags)}
        found = {name: value for name, value in found.items() if value}
        return {**found, "exact_match": True} if found else {}

    def matches(self, server: ServerInfo) -> bool:
        """Whether a server passes the filters."""
        return (
            self.cluster in (None, server.cluster)
            and self.domain in (None, server.domain)
            and {tag.lower() for tag in self.tags} <= {tag.lower() for tag in server.tags or ()}
        )


def selection(
    server: str | None = None,
    cluster: str | None = None,
    domain: str | None = None,
    tags: str | Sequence[str] | None = None,
) -> Selection:
    """The selection of a verb's filters.

    Raises:
        TypeError: A filter has another type.
        ValueError: `server` and another filter, or an empty filter.
    """
    for name, value in {"server": server, "cluster": cluster, "domain": domain}.items():
        if value is not None and not text(name, value):
            raise ValueError(f"{name} must not be empty: leave it out to ask all servers")
    found = Selection(server, cluster, domain, tuple(texts("tags", tags)))
    if server is not None and found.filters:
        raise ValueError("pass server, or cluster, domain and tags, not both")
    return found


class ServerRequests:
    """Sends requests to servers.

    Args:
        session: The connection, of a user of the system account.
        timeout: Maximum seconds of a request.
        stall: Maximum seconds between two answers.
    """

    def __init__(self, session: Session, timeout: float, stall: float) -> None:
        for name, value in {"timeout": timeout, "stall": stall}.items():
            seconds(name, value)
            if not value > 0:
                raise ValueError(f"{name} must be positive, not {value}")
        self.session = session
        self.timeout = timeout
        self.stall = stall

    async def ping(self, chosen: Selection, stall: float | None = None) -> ServerAnswers[ServerStats]:
        """The statistics of the servers, which also has their number.

        Args:
            chosen: The servers.
            stall: Seconds between two answers. Default: those of the connection's requests.
        """
        if chosen.server is not None:
            return ServerAnswers([await self.one("STATSZ", chosen.server, {}, ServerStats)])
        known = await self._known("STATSZ")
        answers = await self._collect("", {}, ServerStats, known, stall)
        self._require_answer("STATSZ", answers)
        known = max([known, *(answer.data.active_servers or 0 for answer in answers)])
        missing = max(known - len(answers), 0)
        return ServerAnswers([answer for answer in answers if chosen.matches(answer.server)], missing)

    async def all(
        self, verb: str, chosen: Selection, options: Mapping[str, Any], kind: type[_T], *, answer_all: bool = True
    ) -> ServerAnswers[_T]:
        """The answers of the chosen servers.

        Args:
            verb: Last token of the request's subject.
            chosen: The servers.
            options: The request.
            kind: Class of the responses.
            answer_all: Whether every server answers, so that the last answer is known.
        """
        if chosen.server is not None:
            return ServerAnswers([await self.one(verb, chosen.server, options, kind)])
        body = {**options, **chosen.filters}
        if not chosen.filters:
            known = await self._known(verb)
            missing = 0
        else:
            servers = await self.ping(chosen)
            known, missing = len(servers), servers.missing
            if not servers:
                return ServerAnswers([], missing)
        answers = await self._collect(verb, body, kind, known if answer_all or known == 1 else 0)
        if answer_all:
            self._require_answer(verb, answers)
            missing += max(known - len(answers), 0)
        return ServerAnswers(answers, missing)

    def _require_answer(self, verb: str, answers: Sequence[ServerAnswer[_T]]) -> None:
        """Rejects an empty result, which would look like a cluster without servers."""
        if not answers:
            raise TimeoutError(
                f"could not request {verb} of the servers: no answer within {self.timeout:g} s, although a server"
                " answered before; retry, or pass a longer timeout= to nc.system()"
            )

    async def one(self, verb: str, server: str, options: Mapping[str, Any], kind: type[_T]) -> ServerAnswer[_T]:
        """The answer of one server, by name or id."""
        server_id = server if _ID.fullmatch(server) else await self._id_of(server)
        begin = self.session.now()
        msg = await self._request(f"{server_id}.{verb}", verb, options, server)
        return self._parse(verb, msg, kind, self.session.now() - begin)

    async def _id_of(self, name: str) -> str:
        # A server that answers late is not one that does not exist.
        answers = await self.ping(Selection(), self.timeout)
        found = [answer.server.id for answer in answers if answer.server.name == name]
        if len(found) > 1:
            raise ServerNotFoundError(f"{len(found)} servers have the name {name!r}: pass the id of one, {found[0]}")
        if not found:
            late = f" ({answers.missing} of them did not answer)" if answers.missing else ""
            near = did_you_mean(nearest_name(name, [answer.server.name for answer in answers]))
            raise ServerNotFoundError(
                f"none of {len(answers) + answers.missing} servers{late} has the name {name!r}; nc.system().ping()"
                f" lists them{near}"
            )
        return found[0]

    async def _known(self, verb: str) -> int:
        """Number of servers that the first one to answer knows; 0 if it is too old to report it.

        Args:
            verb: The request that needs the number, for errors.
        """
        msg = await self._request("PING", verb, {}, None)
        return self._parse("STATSZ", msg, ServerStats, 0.0).data.active_servers or 0

    async def _request(self, tokens: str, verb: str, options: Mapping[str, Any], server: str | None) -> Msg:
        """One answer to a request."""
        subject = f"{_SUBJECT}.{tokens}"
        who = "a server" if server is None else f"server {server!r}"
        try:
            return await self.session.request(subject, _encoded(options), self.timeout, None)
        except NoRespondersError:
            if server is not None:
                # The id may be of a server that has ended. Without permission this raises another error.
                await self._known(verb)
                raise ServerNotFoundError(
                    f"no server has the id or name {server!r} (503 No Responders for {subject}); nc.system().ping()"
                    " lists the servers"
                ) from None
            raise _no_permission(verb, f"503 No Responders for {subject}") from None
        except PermissionsViolationError as error:
            raise _no_permission(verb, str(error).removeprefix("nats: ")) from error
        except TimeoutError:
            raise TimeoutError(
                f"could not request {verb} of {who}: no answer within {self.timeout:g} s; check whether the server runs"
                " (nc.system().ping()), or pass a longer timeout= to nc.system()"
            ) from None

    async def _collect(
        self, verb: str, options: Mapping[str, Any], kind: type[_T], expected: int, stall: float | None = None
    ) -> list[ServerAnswer[_T]]:
        """The answers until `expected` have arrived (0: unknown), or none for `stall` seconds."""
        subject = f"{_SUBJECT}.PING.{verb}" if verb else f"{_SUBJECT}.PING"
        session, answers = self.session, list[ServerAnswer[_T]]()
        begin = session.now()
        async with open_request(session, subject, _encoded(options)) as sub:
            while not expected or len(answers) < expected:
                left = begin + self.timeout - session.now()
                if left <= 0:
                    break
                try:
                    msg = await sub.next_msg(min(left, stall or self.stall) if answers else left)
                except TimeoutError:
                    break
                if (msg.headers or {}).get("Status") == "503" and not msg.data:
                    raise _no_permission(verb or "STATSZ", f"503 No Responders for {subject}")
                answers.append(self._parse(verb or "STATSZ", msg, kind, session.now() - begin))
        return answers

    def _parse(self, verb: str, msg: Msg, kind: type[_T], rtt: float) -> ServerAnswer[_T]:
        try:
            answer = json.loads(msg.data)
            server = ServerInfo.from_response(answer["server"])
            failure = answer.get("error")
            if not failure:
                data = answer["statsz" if verb == "STATSZ" else "data"]
                return ServerAnswer(server, kind.from_response(data), rtt)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise SystemRequestError(
                f"could not read the response to {verb} ({type(error).__name__}: {error}); check whether another"
                f" program answers on {_SUBJECT}.>"
            ) from None
        raise SystemRequestError(
            f"server {server.name or server.id or '(unknown)'} rejected {verb}: {failure.get('description')}"
            f" (code {failure.get('code')}); correct the options"
        )


def _encoded(options: Mapping[str, Any]) -> bytes:
    return json.dumps(options).encode() if options else b""


def _no_permission(verb: str, cause: str) -> SystemAccountError:
    return SystemAccountError(
        f"could not request {verb} of the servers: {cause}; connect with a user of the system account, or add one to"
        " the configuration of every server: accounts { $SYS { users: [ { user: admin, password: ... } ] } }"
    )
