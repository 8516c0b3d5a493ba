"""OpenTelemetry (extra `tracing`: opentelemetry-api): the caller's trace goes along in headers, and comes out again.

    import jetarrow.tracing

    nc = jetarrow.tracing.trace(await jetarrow.connect("nats://localhost:4222"))

Only what is given to `trace` is traced; any other client runs as if this module were not there. A span is a call that
moves a batch, or a request; a single message gets none, it carries the span it was published in.
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
_Ended: TypeAlias = Callable[[Any], Any]
# What is around a verb: it is given the arguments, gives those for the verb, and looks at the result.
_Frame: TypeAlias = Callable[[_Args, dict[str, Any]], AbstractContextManager[tuple[_Args, _Ended]]]
# More links than this are dropped by OpenTelemetry, too.
MAX_LINKS = 128

# Verbs by what becomes of them. Where an object has a verb, it is wrapped; both faces have the same names.
_CARRIERS = ("publish", "publish_async")
_BATCHES = ("publish_batch", "publish_table")
_FETCHES = ("fetch", "fetch_batch")
_SUBSCRIBES = ("subscribe", "subscribe_bind", "pull_subscribe", "pull_subscribe_bind")
_MAKERS = ("jetstream", "publisher")

# True in a call that has a span: what it calls in turn needs none.
_within: ContextVar[bool] = ContextVar("jetarrow-tracing", default=False)


def trace(traced: _T, *, tracer_provider: TracerProvider | None = None) -> _T:
    """Traces a client, and the contexts, publishers and subscriptions that it makes from now on.

    - `publish`, `publish_async` of a client, a context or a publisher: the current trace context goes into the headers.
    - `publish_batch`, `publish_table`: a span of kind producer, whose context goes into all rows' headers; it says how
      many rows were stored, were duplicates, failed.
    - `request`: a span of kind client, whose context goes into the headers.
    - `fetch`, `fetch_batch` of a pull subscription: a span of kind consumer for what came, with a link for each context
      in which it was published. A fetch that gets nothing has no span.
    - The callback of `subscribe` runs in the context of its message.

    Headers that are given by the caller win. The headers and their names are those of OpenTelemetry's propagator, by
    default `traceparent`, `tracestate` and `baggage`.

    Args:
        traced: A client, context, publisher, consumer or pull subscription of either face. It is changed.
        tracer_provider: Who makes the spans; default OpenTelemetry's own.

    Returns:
        `traced`; a second time nothing more happens.

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
    """Makes the context that a message was published in the current one, for the length of a `with` block.

    Args:
        message: Anything with `headers`. Without a context in them the block changes nothing.
    """
    from opentelemetry import context

    token = context.attach(_context(message.headers))
    try:
        yield
    finally:
        context.detach(token)


def links(received: Any) -> list[Link]:
    """The contexts in which messages were published, each once, at most 128; for a span that handles them all.

    Args:
        received: A batch of `fetch_batch` (its column `headers` is needed, and pyarrow), or messages.
    """
    from opentelemetry.trace import Link, get_current_span

    found: dict[tuple[int, int], Link] = {}
    for headers in _distinct(received) if hasattr(received, "to_pyarrow") else (one.headers for one in received):
        span = get_current_span(_context(headers, empty=True)).get_span_context()
        if span.is_valid:
            found.setdefault((span.trace_id, span.span_id), Link(span))
        if len(found) == MAX_LINKS:
            break
    return list(found.values())


def _context(headers: Mapping[str, str | list[str]] | None, *, empty: bool = False) -> Any:
    """Of headers, whoever wrote them: other clients may have their names begin with a capital letter."""
    from opentelemetry import propagate
    from opentelemetry.context import Context

    carrier = {name.lower(): value for name, value in (headers or {}).items()}
    return propagate.extract(carrier, Context() if empty else None)


def _distinct(batch: Any) -> list[dict[str, str]]:
    """What a batch's headers say of traces, each once: rows that were published together say the same."""
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
        (_CARRIERS, _carrying),
        (_BATCHES, functools.partial(_spanning, tracer, SpanKind.PRODUCER)),
        (("request",), functools.partial(_spanning, tracer, SpanKind.CLIENT)),
        (_FETCHES, functools.partial(_fetching, tracer)),
        (_SUBSCRIBES + _MAKERS, functools.partial(_making, tracer)),
    ]
    for names, frame in frames:
        for name in names:
            call = getattr(traced, name, None)
            if call is not None:
                setattr(traced, name, _framed(call, frame(call)))
    vars(traced)["_traced"] = True
    return traced


def _framed(call: _Call, frame: _Frame) -> _Call:
    """The verb in its frame; a coroutine function if it is one."""
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


def _carrying(call: _Call) -> _Frame:
    injected = _changed(call, "headers", _injected)

    @contextmanager
    def frame(args: _Args, kwargs: dict[str, Any]) -> Iterator[tuple[_Args, _Ended]]:
        yield injected(args, kwargs), _same

    return frame


def _spanning(tracer: Tracer, kind: SpanKind, call: _Call) -> _Frame:
    injected = _changed(call, "headers", _injected)
    verb = call.__name__

    @contextmanager
    def frame(args: _Args, kwargs: dict[str, Any]) -> Iterator[tuple[_Args, _Ended]]:
        if _within.get():
            yield args, _same
            return
        subject = next((one for one in (*args[:2], kwargs.get("subject")) if isinstance(one, str)), None)
        within = _within.set(True)
        try:
            with tracer.start_as_current_span(verb, kind=kind, attributes=_attributes(verb)) as span:
                if subject is not None:
                    span.set_attribute("messaging.destination.name", subject)
                yield injected(args, kwargs), functools.partial(_outcome, span)
        finally:
            _within.reset(within)

    return frame


def _fetching(tracer: Tracer, call: _Call) -> _Frame:
    from opentelemetry.trace import SpanKind

    verb = call.__name__

    @contextmanager
    def frame(args: _Args, kwargs: dict[str, Any]) -> Iterator[tuple[_Args, _Ended]]:
        # The span is made when something has come, with the time at which the call began.
        begin = time.time_ns()

        def start(**more: Any) -> Span:
            return tracer.start_span(verb, kind=SpanKind.CONSUMER, start_time=begin, **more)

        def ended(came: Any) -> Any:
            if len(came):
                rows = {"messaging.batch.message_count": len(came)}
                start(attributes={**_attributes(verb), **rows}, links=links(came)).end()
            return came

        try:
            yield args, ended
        except TimeoutError:
            raise
        except Exception as error:
            span = start(attributes=_attributes(verb))
            _failed(span, type(error).__name__)
            span.record_exception(error)
            span.end()
            raise

    return frame


def _making(tracer: Tracer, call: _Call) -> _Frame:
    """What it gives is traced, too; a callback that it is given runs in its message's context."""
    handling = _changed(call, "cb", _handling)

    @contextmanager
    def frame(args: _Args, kwargs: dict[str, Any]) -> Iterator[tuple[_Args, _Ended]]:
        yield handling(args, kwargs), functools.partial(_wrap, tracer=tracer)

    return frame


def _changed(call: _Call, name: str, change: _Call) -> Callable[[_Args, dict[str, Any]], _Args]:
    """Changes one argument of a call, wherever it stands: gives the positional ones, keywords are changed in place."""
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


def _injected(headers: Any) -> Any:
    """Headers of one message, or of all or each row, with the current context."""
    from opentelemetry import propagate

    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    if not carrier:
        return headers
    if headers is None or isinstance(headers, Mapping):
        return {**carrier, **(headers or {})}
    return [{**carrier, **(one or {})} for one in headers]


def _handling(callback: _Call | None) -> _Call | None:
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


def _failed(span: Span, why: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_status(Status(StatusCode.ERROR, why))


def _outcome(span: Span, result: Any) -> Any:
    """Says in a span what became of a batch's rows."""
    if isinstance(result, PublishResult):
        span.set_attribute("messaging.batch.message_count", result.count)
        span.set_attribute("jetarrow.stored", result.stored)
        span.set_attribute("jetarrow.duplicates", result.duplicates or 0)
        if not result.ok:
            _failed(span, f"{len(result.errors)} of {result.count} rows were not stored")
    return result
