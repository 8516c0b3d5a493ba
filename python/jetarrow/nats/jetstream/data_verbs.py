"""The verbs for data that nats-jetstream does not have: those of jetarrow's other JetStream context."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from jetarrow.jetstream.context import JetStreamContext

if TYPE_CHECKING:
    from jetarrow.nats.client import Client

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _delegated(method: Callable[Concatenate[Any, _P], _T]) -> Callable[Concatenate[Any, _P], _T]:
    """Makes a method of a method of `JetStreamContext`, with its signature and docstring."""

    @wraps(method)
    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return method(self._context, *args, **kwargs)

    return call


class DataVerbs:
    """Base of `JetStream`: batches, tables, readers, sinks, pipes and consumer groups.

    Their results and errors are those of `jetarrow.js.client.JetStreamContext`, on the same connection.
    """

    _client: Client
    _prefix: str

    @cached_property
    def _context(self) -> JetStreamContext:
        return self._client.nc.jetstream(prefix=self._prefix)

    publish_batch = _delegated(JetStreamContext.publish_batch)
    publish_table = _delegated(JetStreamContext.publish_table)
    publisher = _delegated(JetStreamContext.publisher)
    read = _delegated(JetStreamContext.read)
    latest = _delegated(JetStreamContext.latest)
    lag = _delegated(JetStreamContext.lag)
    to_parquet = _delegated(JetStreamContext.to_parquet)
    to_delta = _delegated(JetStreamContext.to_delta)
    to_iceberg = _delegated(JetStreamContext.to_iceberg)
    pipe = _delegated(JetStreamContext.pipe)
    keep_dead_letters = _delegated(JetStreamContext.keep_dead_letters)
    dead_letters = _delegated(JetStreamContext.dead_letters)
    create_consumer_group = _delegated(JetStreamContext.create_consumer_group)
    open_consumer_group = _delegated(JetStreamContext.open_consumer_group)
    consumer_group = _delegated(JetStreamContext.consumer_group)
    consumer_groups = _delegated(JetStreamContext.consumer_groups)
