"""How the twin's verbs are made out of the async ones."""

from __future__ import annotations

import functools
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

import jetarrow.core.client as aio_client
from jetarrow import _jetarrow
from jetarrow.core.session import blocked, finish

_P = ParamSpec("_P")
_T = TypeVar("_T")
_U = TypeVar("_U")


class Connection(aio_client.Client):
    """The async client, except that nothing ever suspends."""

    _blocks = True

    async def _run(self, call: _jetarrow.Call[_T], unwanted: object = None) -> _T:
        return await blocked(call)

    async def _pause(self, delay: float) -> None:
        time.sleep(delay)  # noqa: ASYNC251  # there is no event loop here

    def _loop(self) -> None:
        return None

    def _fail(self, error: Exception) -> Any:
        raise error

    def _respond(self, reply: str, data: bytes | str, headers: Any) -> Any:
        return finish(self.publish(reply, data, headers=headers))

    def _ack(self, reply: str, kind: str, **options: Any) -> Any:
        return finish(self._send_ack(reply, kind, **options))


def blocking(
    method: Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[Any, _P], _T]:
    """A method of the async object in `_inner`, run to its end at once."""

    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return finish(method(self._inner, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


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
