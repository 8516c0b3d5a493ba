"""Service: one instance of a service. The other names are re-exported, as in nats-py."""

from __future__ import annotations

import json
from asyncio import Event, Lock
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from types import TracebackType
from typing import Any

from jetarrow._jetarrow import Msg
from jetarrow.client import Client
from jetarrow.core.errors import Error, MaxPayloadError
from jetarrow.core.nuid import NUID
from jetarrow.core.subscription import Subscription
from jetarrow.micro.config import DEFAULT_QUEUE_GROUP as DEFAULT_QUEUE_GROUP
from jetarrow.micro.config import NAME_REGEX as NAME_REGEX
from jetarrow.micro.config import SEMVER_REGEX as SEMVER_REGEX
from jetarrow.micro.config import SUBJECT_REGEX as SUBJECT_REGEX
from jetarrow.micro.config import EndpointConfig, GroupConfig, ServiceConfig, inherited
from jetarrow.micro.config import StatsHandler as StatsHandler
from jetarrow.micro.endpoint import (
    Endpoint,
    EndpointManager,
    Group,
    GroupManager,
    endpoint_config,
    group_config,
    is_in_handler,
)
from jetarrow.micro.models import INFO_RESPONSE_TYPE as INFO_RESPONSE_TYPE
from jetarrow.micro.models import PING_RESPONSE_TYPE as PING_RESPONSE_TYPE
from jetarrow.micro.models import STATS_RESPONSE_TYPE as STATS_RESPONSE_TYPE
from jetarrow.micro.models import EndpointInfo as EndpointInfo
from jetarrow.micro.models import EndpointStats as EndpointStats
from jetarrow.micro.models import ServiceIdentity as ServiceIdentity
from jetarrow.micro.models import ServiceInfo, ServicePing, ServiceStats
from jetarrow.micro.request import Handler as Handler
from jetarrow.micro.request import Request as Request
from jetarrow.micro.request import ServiceError as ServiceError

DEFAULT_PREFIX = "$SRV"
"""Prefix of the subjects of PING, INFO and STATS."""

_nuid = NUID()


class ServiceVerb(str, Enum):  # noqa: UP042  # nats-py's bases
    """Discovery requests to services."""

    PING = "PING"
    STATS = "STATS"
    INFO = "INFO"


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


class Service(EndpointManager, GroupManager, AbstractAsyncContextManager["Service"]):
    """One instance of a service. Created by `add_service`; endpoints are added afterwards."""

    def __init__(self, client: Client, config: ServiceConfig) -> None:
        self._id = _nuid.next().decode()
        self._config = config
        self._client = client
        self._subscriptions: list[Subscription] = []
        self._endpoints: list[Endpoint] = []
        self._started = _now()
        self._stopped = Event()
        self._stopping = Lock()

    def __repr__(self) -> str:
        return (
            f"<Service: {self._config.name!r} {self._config.version}, {len(self._endpoints)} endpoints, id {self._id}>"
        )

    @property
    def id(self) -> str:
        """The unique id of the instance."""
        return self._id

    async def start(self) -> None:
        """Subscribes to the `$SRV` subjects; `add_service` calls it. A second call does nothing.

        Raises:
            ConnectionClosedError: The connection is closed.
            FlushTimeoutError: The server has not confirmed the subscriptions; they are removed.
        """
        if self._subscriptions:
            return
        answers: dict[ServiceVerb, Callable[[], bytes]] = {
            ServiceVerb.PING: lambda: _encoded(self._ping()),
            ServiceVerb.INFO: lambda: _encoded(self.info()),
            ServiceVerb.STATS: self._encoded_stats,
        }
        name = self._config.name
        try:
            for verb, answer in answers.items():
                for subject in (
                    control_subject(verb),
                    control_subject(verb, name),
                    control_subject(verb, name, self._id),
                ):
                    self._subscriptions.append(await self._client.subscribe(subject, cb=_answering(answer)))
            self._started = _now()
            # After the flush other clients can discover the service.
            await self._client.flush()
        except BaseException:
            subscriptions, self._subscriptions = self._subscriptions, []
            await _unsubscribe(subscriptions)
            raise

    async def add_endpoint(
        self, config: EndpointConfig | str | None = None, handler: Handler | None = None, **kwargs: Any
    ) -> None:
        """Adds an endpoint. It receives requests when this method returns: the server has processed its subscription.

        Args:
            config: Its configuration, or its name.
            handler: A coroutine function called with each `Request`. A `ServiceError` that it raises is sent as the
                response, any other exception with code "500".
            **kwargs: Further fields of `EndpointConfig`, by name: `name`, `subject`, `queue_group`, `metadata`,
                `queue_group_disabled`; they override `config`.

        Raises:
            ValueError: A name, subject or queue group is invalid.
            TypeError: The name or the handler is missing, or a field is unknown.
            BadSubjectError: The subject is invalid.
            FlushTimeoutError: The server has not confirmed the subscription; the endpoint was not added.
        """
        made = endpoint_config(config, handler, kwargs)
        group, disabled = inherited(
            made.queue_group,
            made.queue_group_disabled,
            self._config.queue_group,
            self._config.queue_group_disabled,
        )
        endpoint = Endpoint(self, replace(made, queue_group=group, queue_group_disabled=disabled))
        # Before it is started, so that `stop` ends it too.
        self._endpoints.append(endpoint)
        try:
            await endpoint._start()
        except BaseException:
            if endpoint in self._endpoints:
                self._endpoints.remove(endpoint)
            await endpoint._abandon()
            raise

    def add_group(self, config: GroupConfig | str | None = None, **kwargs: Any) -> Group:
        """Adds a group: its name is the prefix of its endpoints' subjects. Groups can be nested.

        Args:
            config: Its configuration, or its name.
            **kwargs: Further fields of `GroupConfig`, by name: `name`, `queue_group`, `queue_group_disabled`.

        Raises:
            ValueError: A name or queue group is invalid.
        """
        return Group(self, group_config(config, kwargs, self._config.queue_group, self._config.queue_group_disabled))

    def stats(self) -> ServiceStats:
        """Returns the statistics of all endpoints.

        If `stats_handler` raises for an endpoint, its `data` is None, and the error is reported to `error_cb` or to the
        log.
        """
        stats = [endpoint.stats() for endpoint in self._endpoints]
        for each in stats:
            each.data = self._data(each)
        return ServiceStats(
            id=self._id,
            name=self._config.name,
            version=self._config.version,
            metadata=self._config.metadata or {},
            endpoints=stats,
            started=self._started,
        )

    def _data(self, stats: EndpointStats) -> Any:
        handler = self._config.stats_handler
        if handler is None:
            return None
        try:
            return handler(stats)
        except Exception as error:
            self._client._session.report_error(error)
            return None

    def _encoded_stats(self) -> bytes:
        """The response to STATS, without `data` that is not JSON or exceeds the server's `max_payload`."""
        stats = self.stats()
        for each in stats.endpoints:
            try:
                json.dumps(each.data)
            except (TypeError, ValueError, RecursionError) as error:
                text = f"the stats_handler of service {self._config.name!r} returned data that is not JSON: {error}"
                self._client._session.report_error(TypeError(text))
                each.data = None
        answer = _encoded(stats)
        limit = self._client.max_payload
        if len(answer) > limit and any(each.data is not None for each in stats.endpoints):
            text = (
                f"the stats of service {self._config.name!r} have {len(answer)} bytes with the data of its"
                f" stats_handler, and max_payload is {limit}: sent without data; return less from stats_handler"
            )
            self._client._session.report_error(MaxPayloadError(text))
            answer = _encoded(replace(stats, endpoints=[replace(each, data=None) for each in stats.endpoints]))
        return answer

    def info(self) -> ServiceInfo:
        """Returns the description of the service and its endpoints."""
        return ServiceInfo(
            id=self._id,
            name=self._config.name,
            version=self._config.version,
            metadata=self._config.metadata or {},
            description=self._config.description,
            endpoints=[endpoint.info() for endpoint in self._endpoints],
        )

    def _ping(self) -> ServicePing:
        return ServicePing(self._id, self._config.name, self._config.version, self._config.metadata or {})

    async def reset(self) -> None:
        """Resets the counters of all endpoints, and their start time."""
        for endpoint in self._endpoints:
            endpoint._reset()
        self._started = _now()

    async def stop(self) -> None:
        """Drains all endpoints: answers received requests, and receives no further ones.

        A second call waits for the first one, unless a handler calls it; afterwards a call does nothing.
        """
        if self._stopped.is_set():
            return
        # The call that is under way may wait for this handler.
        if self._stopping.locked() and is_in_handler():
            return
        async with self._stopping:
            # Each is removed after its end only: a cancelled call can be repeated.
            while self._endpoints:
                endpoint = self._endpoints[0]
                await endpoint._stop()
                # `add_endpoint` removes one that it could not add.
                if endpoint in self._endpoints:
                    self._endpoints.remove(endpoint)
            while self._subscriptions:
                subscription = self._subscriptions[0]
                # Already ended or closed.
                with suppress(Error):
                    await subscription.drain()
                if subscription in self._subscriptions:
                    self._subscriptions.remove(subscription)
            self._stopped.set()

    @property
    def stopped(self) -> Event:
        """Event that is set at the end of `stop`: `await service.stopped.wait()`."""
        return self._stopped

    async def __aenter__(self) -> Service:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def _answering(answer: Callable[[], bytes]) -> Any:
    """Returns a callback that responds with the result of `answer` at that time."""

    async def respond(msg: Msg) -> None:
        if not msg.reply:
            return
        try:
            await msg.respond(answer())
        except Exception as error:
            # For example a response larger than the server's max_payload. The subscription reports the error.
            await Request(msg).respond_error("500", repr(error))
            raise

    return respond


def _encoded(answer: ServicePing | ServiceInfo | ServiceStats) -> bytes:
    return json.dumps(answer.to_dict()).encode()


async def _unsubscribe(subscriptions: list[Subscription]) -> None:
    for subscription in subscriptions:
        # Already ended or closed.
        with suppress(Error):
            await subscription.unsubscribe()


def control_subject(
    verb: ServiceVerb, name: str | None = None, id: str | None = None, prefix: str = DEFAULT_PREFIX
) -> str:
    """Builds the subject of a discovery request.

    Args:
        verb: The request.
        name: Services of this name only; None requests all.
        id: This instance only.
        prefix: Prefix of the subject.
    """
    return ".".join([prefix, verb.value, *(part for part in (name, id) if part is not None)])
