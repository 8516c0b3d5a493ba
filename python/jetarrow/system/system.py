"""The verbs of `nc.system()`: state of the servers, over the system account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from jetarrow.core.arguments import check_whole
from jetarrow.core.session import Session
from jetarrow.system.connection_verbs import ConnectionVerbs
from jetarrow.system.models import Accountz, Healthz, Jsz, ServerStats, Varz
from jetarrow.system.requests import ServerAnswers, ServerRequests
from jetarrow.system.verbs import add_pages, chosen_by, given

if TYPE_CHECKING:
    from jetarrow.system.option_types import ServerFilters


class System(ConnectionVerbs):
    """Requests the state of the servers. Created by `nc.system()`, for a user of the system account.

    Every verb asks all servers, those that pass the filters, or one, and returns one `ServerAnswer` per server, sorted
    by name. A verb returns when all servers have answered. If a server does not answer, it returns the other answers
    `stall` seconds after the last one, and their attribute `missing` is the number of servers without an answer.
    """

    def __init__(self, session: Session, *, timeout: float = 5.0, stall: float = 0.5) -> None:
        self._requests = ServerRequests(session, timeout, stall)

    def __repr__(self) -> str:
        connection = self._requests.session.last_connection
        # `connected_url` has no user and password.
        return f"<{type(self).__name__} at {(connection and connection.connected_url) or 'not connected'}>"

    async def ping(self, **filters: Unpack[ServerFilters]) -> ServerAnswers[ServerStats]:
        """Statistics of the servers, and the round trip time to each.

        Args:
            server: Name or id of one server.
            cluster: Only servers of this cluster.
            domain: Only servers of this JetStream domain.
            tags: Only servers that have all of these tags.
            **filters: The filters above, by name; none asks all servers.

        Raises:
            SystemAccountError: The user may not send requests to the servers.
            ServerNotFoundError: No server has the name or id.
            TimeoutError: The server did not answer.
            SystemRequestError: A response cannot be read.
        """
        return await self._requests.ping(chosen_by(self.ping, filters))

    async def varz(self, **filters: Unpack[ServerFilters]) -> ServerAnswers[Varz]:
        """Configuration and state of the servers.

        Args:
            server: Name or id of one server.
            cluster: Only servers of this cluster.
            domain: Only servers of this JetStream domain.
            tags: Only servers that have all of these tags.
            **filters: The filters above, by name; none asks all servers.

        Raises:
            SystemAccountError: The user may not send requests to the servers.
            ServerNotFoundError: No server has the name or id.
            TimeoutError: The server did not answer.
            SystemRequestError: A response cannot be read.
        """
        return await self._requests.all("VARZ", chosen_by(self.varz, filters), {}, Varz)

    async def jsz(
        self,
        *,
        account: str | None = None,
        accounts: bool = False,
        streams: bool = False,
        consumers: bool = False,
        config: bool = False,
        raft: bool = False,
        leader_only: bool = False,
        stream_leader_only: bool = False,
        offset: int = 0,
        limit: int | None = None,
        **filters: Unpack[ServerFilters],
    ) -> ServerAnswers[Jsz]:
        """JetStream of the servers: usage, accounts, streams, consumers.

        Args:
            account: Include this account only.
            accounts: Include the accounts.
            streams: Include the streams of each account; implies `accounts`.
            consumers: Include the consumers of each stream; implies `streams`.
            config: Include the configuration of each stream and consumer; implies `streams`.
            raft: Include the Raft groups of streams and consumers.
            leader_only: Only the server that leads the group of JetStream's servers answers. The end of its answers is
                known by the pause after the last one, so the call takes `stall` seconds longer. The list is empty if no
                server leads for `timeout` seconds.
            stream_leader_only: Include streams only in the answer of their leader.
            offset: Number of accounts before the first one.
            limit: Maximum number of accounts. None has no limit.
            server: Name or id of one server.
            cluster: Only servers of this cluster.
            domain: Only servers of this JetStream domain.
            tags: Only servers that have all of these tags.
            **filters: The filters above, by name; none asks all servers.

        Raises:
            SystemAccountError: The user may not send requests to the servers.
            ServerNotFoundError: No server has the name or id.
            TimeoutError: The server did not answer; with `leader_only` also if it does not lead.
            SystemRequestError: A server rejected the options.
        """
        check_whole(offset=offset, limit=limit)
        options = given(
            account=account,
            accounts=accounts,
            streams=streams or config,
            consumer=consumers,
            config=config,
            raft=raft,
            leader_only=leader_only,
            stream_leader_only=stream_leader_only,
            offset=offset,
            limit=limit,
        )
        chosen = chosen_by(self.jsz, filters)
        answers = await self._requests.all("JSZ", chosen, options, Jsz, answer_all=not leader_only)
        if limit is None and account is None:
            for answer in answers:
                if answer.data.account_details:
                    await add_pages(self._requests, "JSZ", answer, options=options, entries="account_details")
        return answers

    async def healthz(
        self,
        *,
        account: str | None = None,
        stream: str | None = None,
        consumer: str | None = None,
        js_enabled_only: bool = False,
        js_server_only: bool = False,
        js_meta_only: bool = False,
        details: bool = False,
        **filters: Unpack[ServerFilters],
    ) -> ServerAnswers[Healthz]:
        """Health of the servers and of their streams: `answer.data.ok`. An unhealthy server is not an error.

        Args:
            account: Check only the streams of this account.
            stream: Check only this stream; needs `account`.
            consumer: Check only this consumer; needs `stream`.
            js_enabled_only: Check only whether JetStream is enabled.
            js_server_only: Check the server without streams and consumers.
            js_meta_only: Check only the group of JetStream's servers.
            details: Include all causes in `errors`, not the first one only.
            server: Name or id of one server.
            cluster: Only servers of this cluster.
            domain: Only servers of this JetStream domain.
            tags: Only servers that have all of these tags.
            **filters: The filters above, by name; none asks all servers.

        Raises:
            SystemAccountError: The user may not send requests to the servers.
            ServerNotFoundError: No server has the name or id.
            TimeoutError: The server did not answer.
            SystemRequestError: A server rejected the options.
            ValueError: `stream` without `account`, or `consumer` without `stream`.
        """
        for name, value, needed, other in (
            ("stream", stream, "account", account),
            ("consumer", consumer, "stream", stream),
        ):
            if value is not None and other is None:
                raise ValueError(f"{name}={value!r} needs {needed}=")
        options = given(account=account, stream=stream, consumer=consumer, details=details)
        options |= given(
            **{"js-enabled-only": js_enabled_only, "js-server-only": js_server_only, "js-meta-only": js_meta_only}
        )
        return await self._requests.all("HEALTHZ", chosen_by(self.healthz, filters), options, Healthz)

    async def accountz(
        self, *, account: str | None = None, **filters: Unpack[ServerFilters]
    ) -> ServerAnswers[Accountz]:
        """Accounts of the servers: their names, or the details of one.

        Args:
            account: The account whose details are requested.
            server: Name or id of one server.
            cluster: Only servers of this cluster.
            domain: Only servers of this JetStream domain.
            tags: Only servers that have all of these tags.
            **filters: The filters above, by name; none asks all servers.

        Raises:
            SystemAccountError: The user may not send requests to the servers.
            ServerNotFoundError: No server has the name or id.
            TimeoutError: The server did not answer.
            SystemRequestError: A server rejected the options.
        """
        options = given(account=account)
        return await self._requests.all("ACCOUNTZ", chosen_by(self.accountz, filters), options, Accountz)
