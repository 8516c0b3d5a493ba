"""OpenTelemetry traces (extra `tracing`: opentelemetry-api): propagates the trace context in message headers.

    import jetarrow.tracing

    nc = jetarrow.tracing.trace(await jetarrow.connect("nats://localhost:4222"))

Only objects passed to `trace` are traced; other clients are unchanged. Batch calls and requests create spans. Single
messages create none; they carry the context of the span in which they are published.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from jetarrow.core.errors import TimeoutError, UnsupportedError
from jetarrow.jetstream.publish_result import PublishResult

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span, SpanKind, Tracer, TracerProvider

__all__ = ["attached", "links", "trace"]

_T = TypeVar("_T")
_Call: TypeAlias = Callable[..., Any]
_Args: TypeAlias = tuple[Any, ...]
_OnResult: TypeAlias = Callable[[Any], Any]
# A context manager around a method: it receives the arguments, yields changed ones and a function for the result.
_Frame: TypeAlias = Callable[[_Args, dict[str, Any]], AbstractContextManager[tuple[_Args, _OnResult]]]
# Maximum links per span; the default limit of the OpenTelemetry SDK.
MOST_LINKS = 128

# Methods by the kind of their wrapper. Async and sync classes have the same names.
_MESSAGE_METHODS = ("publish", "publish_async")
_BATCH_METHODS = ("publish_batch", "publish_table")
_FETCH_METHODS = ("fetch", "fetch_batch")
_SUBSCRIBE_METHODS = ("subscribe", "subscribe_bind", "pull_subscribe", "pull_subscribe_bind")
_FACTORY_METHODS = ("jetstream", "publisher")

# True during a call with a span: nested calls create none.
_has_span: ContextVar[bool] = ContextVar("jetarrow-tracing", default=False)


def trace(traced: _T, *, tracer_provider: TracerProvider | None = None) -> _T:
    """Traces a client, and the contexts, publishers and subscriptions that it creates from now on.

    - `publish`, `publish_async` of a client, a context or a publisher: add the current trace context to the headers.
    - `publish_batch`, `publish_table`: create a span of kind producer, and add its context to the headers of all rows.
      Its attributes are the numbers of stored, duplicate and failed rows.
    - `request`: creates a span of kind client, and adds its context to the headers.
    - `fetch`, `fetch_batch` of a pull subscription: create a span of kind consumer, with a link for each context in
      which a received message was published. A fetch without messages creates no span.
    - The callback of `subscribe` runs in the context of its message.

    Headers of the caller override those of the context. The header names are those of OpenTelemetry's propagator, by
    default `traceparent`, `tracestate` and `baggage`.

    Args:
        traced: A client, context, publisher, consumer or pull subscription, async or sync. It is changed in place.
        tracer_provider: Creates the tracer; default OpenTelemetry's global provider.

    Returns:
        `traced`; a second call does nothing.

    Raises:
        UnsupportedError: opentelemetry-api is not installed.
    """
    try:
        from opentelemetry.trace import get_tracer
    except ImportError:
        raise UnsupportedError(
            "jetarrow.tracing", 'opentelemetry-api; run: pip install "jetarrow[tracing]"', "it is not installed"
        ) from None
    from jetarrow import __version__

    return _wrap(traced, get_tracer("jetarrow", __version__, tracer_provider=tracer_provider))


@contextmanager
def attached(message: Any) -> Iterator[None]:
    """Sets the context in which a message was published as the current one, in a `with` block.

    Args:
        message: An object with `headers`. Without a trace context in them, the current context is unchanged.
    """
    from opentelemetry import context

    token = context.attach(_context(message.headers))
    try:
        yield
    finally:
        context.detach(token)


def links(received: Any) -> list[Link]:
    """Returns links to the contexts in which messages were published, without duplicates, at most 128.

    Args:
        received: A batch of `fetch_batch` (requires its column `headers` and pyarrow), or messages.
    """
    from opentelemetry.trace import Link, get_current_span

    found: dict[tuple[int, int], Link] = {}
    for headers in _trace_headers(received) if hasattr(received, "to_pyarrow") else (one.headers for one in received):
        span = get_current_span(_context(headers, empty=True)).get_span_context()
        if span.is_valid:
            found.setdefault((span.trace_id, span.span_id), Link(span))
        if len(found) == MOST_LINKS:
            break
    return list(found.values())


def _context(headers: Mapping[str, str | list[str]] | None, *, empty: bool = False) -> Any:
    """Extracts the context of headers; some clients write their names with a capital letter."""
    from opentelemetry import propagate
    from opentelemetry.context import Context

    carrier = {name.lower(): value for name, value in (headers or {}).items()}
    return propagate.extract(carrier, Context() if empty else None)


def _trace_headers(batch: Any) -> list[dict[str, str]]:
    """The trace headers of a batch, without duplicates: rows that were published together have the same."""
    try:
        import pyarrow as pa
        import pyarrow.compute as pc
    except ImportError:
        return []
    from opentelemetry import propagate

    rows = batch.to_pyarrow()
    if "headers" not in rows.schema.names:
        return []
    columns = {}
    for field in sorted(propagate.get_global_textmap().fields):
        values = [pc.map_lookup(rows["headers"], name, "first") for name in (field, field.title())]
        columns[field] = pc.coalesce(*(pc.binary_join(one, ",") for one in values))
    if not columns:
        return []
    table = pa.table(columns).group_by(list(columns)).aggregate([])
    return [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]


def _wrap(traced: _T, tracer: Tracer) -> _T:
    from opentelemetry.trace import SpanKind

    if "_traced" in vars(traced):
        return traced
    frames: list[tuple[tuple[str, ...], Callable[[_Call], _Frame]]] = [
        (_MESSAGE_METHODS, _inject_frame),
        (_BATCH_METHODS, functools.partial(_span_frame, tracer, SpanKind.PRODUCER)),
        (("request",), functools.partial(_span_frame, tracer, SpanKind.CLIENT)),
        (_FETCH_METHODS, functools.partial(_fetch_frame, tracer)),
        (_SUBSCRIBE_METHODS + _FACTORY_METHODS, functools.partial(_factory_frame, tracer)),
    ]
    for names, frame in frames:
        for name in names:
            call = getattr(traced, name, None)
            if call is not None:
                setattr(traced, name, _wrap_method(call, frame(call)))
    vars(traced)["_traced"] = tracer
    return traced


def tracer_of(traced: object) -> Tracer | None:
    """Returns the tracer of an object that was passed to `trace`, or created by one; None without one."""
    tracer: Tracer | None = vars(traced).get("_traced")
    return tracer


@contextmanager
def processing(tracer: Tracer, received: Any, consumer: str, *, count: int) -> Iterator[None]:
    """Creates a span of kind consumer around a handler.

    Args:
        tracer: The tracer.
        received: A message, in whose context the span is; or a batch, with links to the contexts of its messages.
        consumer: The consumer.
        count: Number of messages.
    """
    from opentelemetry import context
    from opentelemetry.trace import SpanKind

    batched = not hasattr(received, "reply")
    about: dict[str, str | int] = {
        **_attributes("process"),
        "messaging.batch.message_count": count,
        "messaging.consumer.group.name": consumer,
    }
    token = None if batched else context.attach(_context(received.headers))
    try:
        with tracer.start_as_current_span(
            f"process {consumer}",
            kind=SpanKind.CONSUMER,
            attributes=about,
            links=links(received) if batched else None,
        ):
            yield
    finally:
        if token is not None:
            context.detach(token)


def _wrap_method(call: _Call, frame: _Frame) -> _Call:
    """Wraps a method in a frame; the result is a coroutine function if the method is one."""
    if inspect.iscoroutinefunction(call):

        @functools.wraps(call)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            with frame(args, kwargs) as (changed, ended):
                return ended(await call(*changed, **kwargs))

        return awaited

    @functools.wraps(call)
    def plain(*args: Any, **kwargs: Any) -> Any:
        with frame(args, kwargs) as (changed, ended):
            return ended(call(*changed, **kwargs))

    return plain


def _inject_frame(call: _Call) -> _Frame:
    injected = _argument_changer(call, "headers", _with_context_headers)

    @contextmanager
    def frame(args: _Args, kwargs: dict[str, Any]) -> Iterator[tuple[_Args, _OnResult]]:
        yield injected(args, kwargs), _same

    return frame


def _span_frame(tracer: Tracer, kind: SpanKind, call: _Call) -> _Frame:
    injected = _argument_changer(call, "headers", _with_context_headers)
    verb = call.__name__

    @contextmanager
    def frame(args: _Args, kwargs: dict[str, Any]) -> Iterator[tuple[_Args, _OnResult]]:
        if _has_span.get():
            yield args, _same
            return
        subject = next((one for one in (*args[:2], kwargs.get("subject")) if isinstance(one, str)), None)
        within = _has_span.set(True)
        try:
            with tracer.start_as_current_span(verb, kind=kind, attributes=_attributes(verb)) as span:
                if subject is not None:
                    span.set_attribute("messaging.destination.name", subject)
                yield injected(args, kwargs), functools.partial(_set_result_attributes, span)
        finally:
            _has_span.reset(within)

    return frame


def _fetch_frame(tracer: Tracer, call: _Call) -> _Frame:
    from opentelemetry.trace import SpanKind

    verb = call.__name__

    @contextmanager
    def frame(args: _Args, kwargs: dict[str, Any]) -> Iterator[tuple[_Args, _OnResult]]:
        # The span is created after messages have arrived, with the start time of the call.
        begin = time.time_ns()

        def start(**more: Any) -> Span:
            return tracer.start_span(verb, kind=SpanKind.CONSUMER, start_time=begin, **more)

        def ended(received: Any) -> Any:
            if len(received):
                rows = {"messaging.batch.message_count": len(received)}
                start(attributes={**_attributes(verb), **rows}, links=links(received)).end()
            return received

        try:
            yield args, ended
        except TimeoutError:
            raise
        except Exception as error:
            span = start(attributes=_attributes(verb))
            _set_error(span, type(error).__name__)
            span.record_exception(error)
            span.end()
            raise

    return frame


def _factory_frame(tracer: Tracer, call: _Call) -> _Frame:
    """Traces the returned object; a passed callback runs in the context of its message."""
    handling = _argument_changer(call, "cb", _in_message_context)

    @contextmanager
    def frame(args: _Args, kwargs: dict[str, Any]) -> Iterator[tuple[_Args, _OnResult]]:
        yield handling(args, kwargs), functools.partial(_wrap, tracer=tracer)

    return frame


def _argument_changer(call: _Call, name: str, change: _Call) -> Callable[[_Args, dict[str, Any]], _Args]:
    """Changes one argument of a call, positional or keyword; returns the positional ones, changes keywords in place."""
    parameters = inspect.signature(call).parameters
    takes = name in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    positional = [one.name for one in parameters.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
    place = positional.index(name) if name in positional else None

    def changed(args: _Args, kwargs: dict[str, Any]) -> _Args:
        if place is not None and len(args) > place:
            return (*args[:place], change(args[place]), *args[place + 1 :])
        value = change(kwargs.get(name)) if takes else None
        if value is not None:
            kwargs[name] = value
        return args

    return changed


def _with_context_headers(headers: Any) -> Any:
    """Adds the current context to the headers of one message, of all rows or of each row."""
    from opentelemetry import propagate

    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    if not carrier:
        return headers
    if headers is None or isinstance(headers, Mapping):
        return {**carrier, **(headers or {})}
    return [{**carrier, **(one or {})} for one in headers]


def _in_message_context(callback: _Call | None) -> _Call | None:
    if not inspect.iscoroutinefunction(callback):
        return callback

    @functools.wraps(callback)
    async def handle(message: Any) -> Any:
        with attached(message):
            return await callback(message)

    return handle


def _same(result: Any) -> Any:
    return result


def _attributes(verb: str) -> dict[str, str]:
    return {"messaging.system": "nats", "messaging.operation.name": verb}


def _set_error(span: Span, why: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_status(Status(StatusCode.ERROR, why))


def _set_result_attributes(span: Span, result: Any) -> Any:
    """Sets the numbers of stored, duplicate and failed rows as attributes of a span."""
    if isinstance(result, PublishResult):
        span.set_attribute("messaging.batch.message_count", result.count)
        span.set_attribute("jetarrow.stored", result.stored)
        span.set_attribute("jetarrow.duplicates", result.duplicates or 0)
        if not result.ok:
            _set_error(span, f"{len(result.errors)} of {result.count} rows were not stored")
    return result
