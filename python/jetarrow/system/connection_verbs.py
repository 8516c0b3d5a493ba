"""Verbs of `nc.system()` for connections: clients, subscriptions, routes, gateways, leaf nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from jetarrow.core.arguments import check_whole
from jetarrow.system.models import Connz, Gatewayz, Leafz, Routez, Subsz
from jetarrow.system.requests import ServerAnswers, ServerRequests
from jetarrow.system.verbs import add_pages, chosen_by, given, one_of

if TYPE_CHECKING:
    from jetarrow.system.option_types import ServerFilters

# Values of options, in the order of nats-server's monitor.go and monitor_sort_opts.go.
_STATES = ("open", "closed", "all")
_SORTS = (
    *("cid", "start", "subs", "pending", "msgs_to", "msgs_from", "bytes_to", "bytes_from", "last", "idle", "uptime"),
    *("rtt", "stop", "reason"),
)
# Subscriptions that may be added between two requests.
_MARGIN = 1024


class ConnectionVerbs:
    """Verbs that list connections and subscriptions."""

    _requests: ServerRequests

    async def connz(
        self,
        *,
        state: str = "open",
        sort: str | None = None,
        auth: bool = False,
        subscriptions: bool = False,
        subscriptions_detail: bool = False,
        account: str | None = None,
        user: str | None = None,
        cid: int | None = None,
        filter_subject: str | None = None,
        offset: int = 0,
        limit: int | None = None,
        **filters: Unpack[ServerFilters],
    ) -> ServerAnswers[Connz]:
        """Client connections of the servers.

        Without `limit` every connection is listed, with one request per 1,024 connections. Connections that are opened
        or closed meanwhile may be listed twice or not at all.

        Args:
            state: "open", "closed" (the server remembers the last 10,000) or "all".
            sort: "cid", "start", "subs", "pending", "msgs_to", "msgs_from", "bytes_to", "bytes_from", "last", "idle",
                "uptime", "rtt"; for closed connections also "stop" and "reason". All but "cid" and "start" sort from
                the largest to the smallest. Default: "cid".
            auth: Include account and user.
            subscriptions: Include subjects of the subscriptions.
            subscriptions_detail: Include the subscriptions.
            account: Only connections of this account; implies `auth`.
            user: Only connections of this user; implies `auth`.
            cid: Only the connection with this id.
            filter_subject: Only connections with a subscription that matches it; needs `account`.
            offset: Number of connections before the first one, on each server.
            limit: Maximum number of connections of each server. None has no limit.
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
            ValueError: `state` or `sort` is not one of the above, or `filter_subject` is without `account`.
        """
        check_whole(cid=cid, offset=offset, limit=limit)
        if filter_subject is not None and account is None:
            raise ValueError("filter_subject needs account=, the account of the subscriptions")
        options = given(
            state=_STATES.index(one_of("state", state, _STATES)),
            sort=None if sort is None else one_of("sort", sort, _SORTS),
            auth=auth or account is not None or user is not None,
            subscriptions=subscriptions,
            subscriptions_detail=subscriptions_detail,
            acc=account,
            user=user,
            cid=cid,
            filter_subject=filter_subject,
            offset=offset,
            limit=limit,
        )
        chosen = chosen_by(self.connz, filters)
        answers = await self._requests.all("CONNZ", chosen, options, Connz)
        if limit is None and cid is None:
            for answer in answers:
                await add_pages(self._requests, "CONNZ", answer, options=options, entries="connections")
                answer.data.num_connections = len(answer.data.connections or ())
        return answers

    async def subsz(
        self,
        *,
        subscriptions: bool = False,
        account: str | None = None,
        test: str | None = None,
        offset: int = 0,
        limit: int | None = None,
        **filters: Unpack[ServerFilters],
    ) -> ServerAnswers[Subsz]:
        """Subscriptions of the servers: their number, or with `subscriptions` each of them.

        Without `limit` a server sends all of them in one message, because it has no order for pages: pass `account`,
        `test` or `limit` for a server with very many.

        Args:
            subscriptions: Include the subscriptions.
            account: Include only those of this account; implies `subscriptions`.
            test: Include only those that a message to this subject would be delivered to; implies `subscriptions`.
            offset: Number of subscriptions before the first one, on each server.
            limit: Maximum number of subscriptions of each server. None has no limit.
            server: Name or id of one server.
            cluster: Only servers of this cluster.
            domain: Only servers of this JetStream domain.
            tags: Only servers that have all of these tags.
            **filters: The filters above, by name; none asks all servers.

        Raises:
            SystemAccountError: The user may not send requests to the servers.
            ServerNotFoundError: No server has the name or id.
            TimeoutError: The server did not answer.
            SystemRequestError: A server rejected the options, such as wildcards in `test`.
        """
        check_whole(offset=offset, limit=limit)
        listed = subscriptions or account is not None or test is not None
        options = given(subscriptions=listed, account=account, test=test, offset=offset, limit=limit)
        answers = await self._requests.all("SUBSZ", chosen_by(self.subsz, filters), options, Subsz)
        for answer in answers if listed and limit is None else ():
            found = answer.data
            if found.total > offset + len(found.subscriptions_list or ()):
                # Not in pages: the server lists them in another order each time.
                every = {**options, "limit": found.total + _MARGIN}
                answer.data = (await self._requests.one("SUBSZ", answer.server.id, every, Subsz)).data
        return answers

    async def routez(self, *, subscriptions: bool = False, **filters: Unpack[ServerFilters]) -> ServerAnswers[Routez]:
        """Connections to the other servers of the cluster.

        Args:
            subscriptions: Include the subjects that the other servers subscribe to.
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
        options = given(subscriptions=subscriptions)
        return await self._requests.all("ROUTEZ", chosen_by(self.routez, filters), options, Routez)

    async def gatewayz(
        self, *, name: str | None = None, accounts: bool = False, **filters: Unpack[ServerFilters]
    ) -> ServerAnswers[Gatewayz]:
        """Connections to other clusters.

        Args:
            name: Only those to this cluster.
            accounts: Include the accounts with their interest.
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
        options = given(name=name, accounts=accounts)
        return await self._requests.all("GATEWAYZ", chosen_by(self.gatewayz, filters), options, Gatewayz)

    async def leafz(
        self, *, account: str | None = None, subscriptions: bool = False, **filters: Unpack[ServerFilters]
    ) -> ServerAnswers[Leafz]:
        """Connections to leaf nodes.

        Args:
            account: Only those of this account.
            subscriptions: Include the subjects that the leaf nodes subscribe to.
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
        options = given(account=account, subscriptions=subscriptions)
        return await self._requests.all("LEAFZ", chosen_by(self.leafz, filters), options, Leafz)
