"""Blocking methods made from async ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import FunctionType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast, overload

from jetarrow._jetarrow import Msg, SyncMsg
from jetarrow.core.session import run_to_completion

_P = ParamSpec("_P")
_T = TypeVar("_T")
_U = TypeVar("_U")
_F = TypeVar("_F", bound=Callable[..., Any])

# Replacements in docstrings and annotations of async methods.
_REPLACEMENTS = (
    ("async for", "for"),
    ("async with", "with"),
    ("await ", ""),
    ("AsyncIterator", "Iterator"),
    ("JetStreamContext", "JetStream"),
)


def _without_async(text: Any) -> Any:
    if isinstance(text, str):
        for word, other in _REPLACEMENTS:
            text = text.replace(word, other)
    return text


def with_signature_of(method: Callable[..., Any]) -> Callable[[_F], _F]:
    """Decorates a method with the signature of an async one, as `help` and editors show it, and with its docstring.

    Args:
        method: The async method. If the decorated method has a docstring, it is kept.
    """

    def decorate(call: _F) -> _F:
        inner: Any = method
        while hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
        # `inspect.signature` reads `__wrapped__`: the async parameters, with the blocking types in the annotations.
        shown = FunctionType(inner.__code__, inner.__globals__, inner.__name__, inner.__defaults__, inner.__closure__)
        shown.__kwdefaults__ = inner.__kwdefaults__
        shown.__annotations__ = {name: _without_async(text) for name, text in inner.__annotations__.items()}
        target: Any = call
        target.__wrapped__, target.__name__ = shown, inner.__name__
        target.__doc__ = call.__doc__ or _without_async(inner.__doc__)
        return call

    return decorate


def inner_repr(self: Any) -> str:
    """The `repr` of the async object in `_inner`, with the name of the blocking class."""
    return repr(self._inner).replace(type(self._inner).__name__, type(self).__name__, 1)


def blocking(
    method: Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[Any, _P], _T]:
    """Makes a blocking method of an async method of the object in `_inner`."""

    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return run_to_completion(method(self._inner, *args, **kwargs))

    return with_signature_of(method)(call)


def forwarded(method: Callable[Concatenate[Any, _P], _T]) -> Callable[Concatenate[Any, _P], _T]:
    """Makes a method of a method of the async object in `_inner` that is not a coroutine function."""

    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return method(self._inner, *args, **kwargs)

    return with_signature_of(method)(call)


@overload
def blocking_messages(
    method: Callable[Concatenate[Any, _P], Coroutine[Any, Any, Msg]],
) -> Callable[Concatenate[Any, _P], SyncMsg]: ...
@overload
def blocking_messages(
    method: Callable[Concatenate[Any, _P], Coroutine[Any, Any, list[Msg]]],
) -> Callable[Concatenate[Any, _P], list[SyncMsg]]: ...
def blocking_messages(method: Any) -> Any:
    """As `blocking`, for a method that returns messages: a `BlockingSession` makes them of the class `SyncMsg`."""
    return blocking(method)


def wrapped(
    method: Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]], wrap: Callable[[_T], _U]
) -> Callable[Concatenate[Any, _P], _U]:
    """As `blocking`, for a method whose result has a blocking class, which `wrap` creates."""

    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _U:
        return wrap(run_to_completion(method(self._inner, *args, **kwargs)))

    return with_signature_of(method)(call)


def iterated(
    method: Callable[Concatenate[Any, _P], AsyncIterator[_T]],
) -> Callable[Concatenate[Any, _P], Iterator[_T]]:
    """As `blocking`, for an async generator method: returns an iterator over its items."""

    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> Iterator[_T]:
        return iterate(method(self._inner, *args, **kwargs))

    return with_signature_of(method)(call)


def iterate(items: AsyncIterator[_T]) -> Iterator[_T]:
    """Iterates over an async iterator that does not suspend."""
    advance = items.__anext__
    try:
        while True:
            try:
                # Not through `run_to_completion`: a coroutine around it doubles the time per item.
                next(advance().__await__())
            except StopIteration as done:
                item: _T = done.value
            except StopAsyncIteration:
                return
            else:
                raise RuntimeError("the iterator suspended: it waits for an event loop, not through a BlockingSession")
            yield item
    finally:
        close = getattr(items, "aclose", None)
        if close is not None:
            run_to_completion(close())


def iterate_messages(messages: AsyncIterator[Msg]) -> Iterator[SyncMsg]:
    """As `iterate`, for messages: a `BlockingSession` makes them of the class `SyncMsg`."""
    return cast("Iterator[SyncMsg]", iterate(messages))
