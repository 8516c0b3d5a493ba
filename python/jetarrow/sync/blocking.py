"""How the twin's verbs are made out of the async ones."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from jetarrow._jetarrow import Msg, SyncMsg
from jetarrow.core.session import finish

_P = ParamSpec("_P")
_T = TypeVar("_T")
_U = TypeVar("_U")


def blocking(
    method: Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[Any, _P], _T]:
    """A method of the async object in `_inner`, run to its end at once."""

    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return finish(method(self._inner, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


@overload
def giving(
    method: Callable[Concatenate[Any, _P], Coroutine[Any, Any, Msg]],
) -> Callable[Concatenate[Any, _P], SyncMsg]: ...
@overload
def giving(
    method: Callable[Concatenate[Any, _P], Coroutine[Any, Any, list[Msg]]],
) -> Callable[Concatenate[Any, _P], list[SyncMsg]]: ...
def giving(method: Any) -> Any:
    """As `blocking`, for a method that gives messages: the session made them such whose verbs block."""
    return blocking(method)


def wrapped(
    method: Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]], wrap: Callable[[_T], _U]
) -> Callable[Concatenate[Any, _P], _U]:
    """The same for a method whose result has a blocking twin."""

    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _U:
        return wrap(finish(method(self._inner, *args, **kwargs)))

    functools.update_wrapper(call, method)
    return call


def iterated(
    method: Callable[Concatenate[Any, _P], AsyncIterator[_T]],
) -> Callable[Concatenate[Any, _P], Iterator[_T]]:
    """The same for a method that is an async generator: a plain iterator over what it yields."""

    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> Iterator[_T]:
        return drained(method(self._inner, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


def drained(items: AsyncIterator[_T]) -> Iterator[_T]:
    """A plain iterator over an async one that never suspends."""

    async def step() -> _T:
        return await anext(items)

    try:
        while True:
            try:
                item = finish(step())
            except StopAsyncIteration:
                return
            yield item
    finally:
        close = getattr(items, "aclose", None)
        if close is not None:
            finish(close())
