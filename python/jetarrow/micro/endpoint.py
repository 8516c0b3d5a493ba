"""Endpoints of services, and groups of endpoints."""

from __future__ import annotations

import asyncio
import inspect
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Protocol

from jetarrow._jetarrow import Msg
from jetarrow.client import Client
from jetarrow.core.errors import Error
from jetarrow.core.subscription import Subscription
from jetarrow.micro.config import DEFAULT_QUEUE_GROUP, EndpointConfig, GroupConfig, inherited
from jetarrow.micro.models import EndpointInfo, EndpointStats
from jetarrow.micro.request import Handler, Request, ServiceError, truncate

# Maximum bytes of `last_error` in the statistics: one response has those of all endpoints.
_MAX_LAST_ERROR_BYTES = 1024

_handles: ContextVar[bool] = ContextVar("_handles", default=False)


def is_in_handler() -> bool:
    """Whether this runs within the handler of an endpoint, or in a task that one has started."""
    return _handles.get()


class HasClient(Protocol):
    """The part of a service that its endpoints use."""

    _client: Client


class Endpoint:
    """Answers requests to a subject. Created by `add_endpoint`."""

    def __init__(self, service: HasClient, config: EndpointConfig) -> None:
        self._service = service
        self._name = config.name
        self._subject = config.subject or config.name
        self._queue_group = "" if config.queue_group_disabled else config.queue_group or DEFAULT_QUEUE_GROUP
        self._handler = config.handler
        self._metadata = config.metadata
        self._subscription: Subscription | None = None
        self._reset()

    async def _start(self) -> None:
        """Subscribes, and waits until the server has processed the subscription."""
        client = self._service._client
        self._subscription = await client.subscribe(self._subject, queue=self._queue_group, cb=self._handle_request)
        await client.flush()

    async def _stop(self) -> None:
        """Drains the subscription: answers received requests, and receives no further ones."""
        if self._subscription is not None:
            # Already ended or closed.
            with suppress(Error):
                await self._subscription.drain()
            self._subscription = None

    async def _abandon(self) -> None:
        """Unsubscribes, also if the server has not confirmed the subscription."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            # Already ended or closed.
            with suppress(Error):
                await subscription.unsubscribe()

    def _reset(self) -> None:
        self._num_requests = 0
        self._num_errors = 0
        self._processing_time = 0
        self._last_error: str | None = None

    def stats(self) -> EndpointStats:
        """Returns the statistics of the endpoint."""
        return EndpointStats(
            name=self._name,
            subject=self._subject,
            queue_group=self._queue_group,
            num_requests=self._num_requests,
            num_errors=self._num_errors,
            last_error=self._last_error,
            processing_time=self._processing_time,
            average_processing_time=self._processing_time // max(self._num_requests, 1),
        )

    def info(self) -> EndpointInfo:
        """Returns the description of the endpoint."""
        return EndpointInfo(self._name, self._subject, self._queue_group, self._metadata or {})

    async def _handle_request(self, msg: Msg) -> None:
        start = time.perf_counter_ns()
        self._num_requests += 1
        request = Request(msg, client=self._service._client)
        _handles.set(True)
        try:
            done = self._handler(request)
            if inspect.isawaitable(done):
                await done
            if request._error is not None:
                self._failed(request._error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            await self._respond_failure(request, Error("the handler waited for a task that was cancelled"))
        except Exception as error:
            await self._respond_failure(request, error)
        finally:
            # Not `reset`, which fails if the loop has ended and the task is garbage collected.
            _handles.set(False)
            self._processing_time += time.perf_counter_ns() - start

    async def _respond_failure(self, request: Request, error: Exception) -> None:
        self._failed(error)
        if request._msg.reply:
            answer = error if isinstance(error, ServiceError) else ServiceError("500", _text(error))
            await request.respond_error(answer.code, answer.description)

    def _failed(self, error: Exception) -> None:
        self._num_errors += 1
        self._last_error = truncate(_text(error), _MAX_LAST_ERROR_BYTES)


def _text(error: Exception) -> str:
    """The `repr` of an error; its class name if `__repr__` fails."""
    try:
        return repr(error)
    except Exception:
        return type(error).__name__


class EndpointManager(ABC):
    """An object with endpoints: a service or a group."""

    @abstractmethod
    async def add_endpoint(
        self, config: EndpointConfig | str | None = None, handler: Handler | None = None, **kwargs: Any
    ) -> None:
        """Adds an endpoint."""


class GroupManager(ABC):
    """An object with groups: a service or a group."""

    @abstractmethod
    def add_group(self, config: GroupConfig | str | None = None, **kwargs: Any) -> Group:
        """Adds a group."""


class Group(GroupManager, EndpointManager):
    """Endpoints with a common subject prefix. Created by `add_group`."""

    def __init__(self, service: EndpointManager, config: GroupConfig) -> None:
        self._service = service
        self._prefix = config.name
        self._queue_group = config.queue_group
        self._queue_group_disabled = config.queue_group_disabled

    async def add_endpoint(
        self, config: EndpointConfig | str | None = None, handler: Handler | None = None, **kwargs: Any
    ) -> None:
        """As `Service.add_endpoint`; the group's name is the prefix of the subject.

        Args:
            config: As there.
            handler: As there.
            **kwargs: As there.
        """
        endpoint = endpoint_config(config, handler, kwargs)
        group, disabled = inherited(
            endpoint.queue_group, endpoint.queue_group_disabled, self._queue_group, self._queue_group_disabled
        )
        subject = f"{self._prefix.strip('.')}.{endpoint.subject or endpoint.name}".strip(".")
        await self._service.add_endpoint(
            replace(endpoint, subject=subject, queue_group=group, queue_group_disabled=disabled)
        )

    def add_group(self, config: GroupConfig | str | None = None, **kwargs: Any) -> Group:
        """As `Service.add_group`; this group's name is the prefix of its name.

        Args:
            config: As there.
            **kwargs: As there.
        """
        made = group_config(config, kwargs, self._queue_group, self._queue_group_disabled)
        return Group(self._service, replace(made, name=f"{self._prefix}.{made.name}"))


def endpoint_config(
    config: EndpointConfig | str | None, handler: Handler | None, fields: dict[str, Any]
) -> EndpointConfig:
    """Builds the configuration from the arguments of `add_endpoint`."""
    if handler is not None:
        fields = {**fields, "handler": handler}
    if isinstance(config, EndpointConfig):
        return replace(config, **fields)
    return EndpointConfig(**fields) if config is None else EndpointConfig(config, **fields)


def group_config(
    config: GroupConfig | str | None, fields: dict[str, Any], queue_group: str | None, disabled: bool
) -> GroupConfig:
    """Builds the configuration from the arguments of `add_group` and the settings of the parent."""
    if isinstance(config, GroupConfig):
        made = replace(config, **fields)
    else:
        made = GroupConfig(**fields) if config is None else GroupConfig(config, **fields)
    group, without = inherited(made.queue_group, made.queue_group_disabled, queue_group, disabled)
    return replace(made, queue_group=group, queue_group_disabled=without)
