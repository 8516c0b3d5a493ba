"""Blocking methods made from async ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import FunctionType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast, overload

from jetarrow._jetarrow import Msg, SyncMsg
from jetarrow.core.docstrings import completed_docstring, without_async
from jetarrow.core.session import run_to_completion
from jetarrow.core.suggestions import raise_nearest_keyword

_P = ParamSpec("_P")
_T = TypeVar("_T")
_U = TypeVar("_U")
_F = TypeVar("_F", bound=Callable[..., Any])


def with_signature_of(method: Callable[..., Any]) -> Callable[[_F], _F]:
    """Decorates a method with the signature of an async one, as `help` and editors show it, and with its docstring.

    Args:
        method: The async method. A docstring of the decorated method is kept, unless it refers to the async one.
    """

    def decorate(call: _F) -> _F:
        inner: Any = method
        while hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
        # `inspect.signature` reads `__wrapped__`: the async parameters, with the blocking types in the annotations.
        shown = FunctionType(inner.__code__, inner.__globals__, inner.__name__, inner.__defaults__, inner.__closure__)
        shown.__kwdefaults__ = inner.__kwdefaults__
        shown.__annotations__ = {name: without_async(text) for name, text in inner.__annotations__.items()}
        target: Any = call
        target.__wrapped__, target.__name__ = shown, inner.__name__
        target.__doc__ = completed_docstring(call.__doc__, inner.__doc__)
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
        try:
            return run_to_completion(method(self._inner, *args, **kwargs))
        except TypeError as error:
            raise_nearest_keyword(error, method)

    return with_signature_of(method)(call)


def forwarded(method: Callable[Concatenate[Any, _P], _T]) -> Callable[Concatenate[Any, _P], _T]:
    """Makes a method of a method of the async object in `_inner` that is not a coroutine function."""

    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return method(self._inner, *args, **kwargs)
        except TypeError as error:
            raise_nearest_keyword(error, method)

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
        try:
            return wrap(run_to_completion(method(self._inner, *args, **kwargs)))
        except TypeError as error:
            raise_nearest_keyword(error, method)

    return with_signature_of(method)(call)


def iterated(
    method: Callable[Concatenate[Any, _P], AsyncIterator[_T]],
) -> Callable[Concatenate[Any, _P], Iterator[_T]]:
    """As `blocking`, for an async generator method: returns an iterator over its items."""

    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> Iterator[_T]:
        try:
            return iterate(method(self._inner, *args, **kwargs))
        except TypeError as error:
            raise_nearest_keyword(error, method)

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
