"""How the twin's verbs are made out of the async ones."""

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

# In docstrings and annotations of the async face, which become the twin's.
_OTHER_WORDS = (
    ("async for", "for"),
    ("async with", "with"),
    ("await ", ""),
    ("AsyncIterator", "Iterator"),
    ("JetStreamContext", "JetStream"),
)


def _plain(text: Any) -> Any:
    if isinstance(text, str):
        for word, other in _OTHER_WORDS:
            text = text.replace(word, other)
    return text


def with_signature_of(method: Callable[..., Any]) -> Callable[[_F], _F]:
    """The decorated method has the signature of an async one, as `help` and editors show it, and its docstring.

    Args:
        method: The async one. A docstring of the decorated method's own is kept.
    """

    def named(call: _F) -> _F:
        inner: Any = method
        while hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
        # What `inspect.signature` looks at: the async method's parameters, with the twin's words in the annotations.
        twin = FunctionType(inner.__code__, inner.__globals__, inner.__name__, inner.__defaults__, inner.__closure__)
        twin.__kwdefaults__ = inner.__kwdefaults__
        twin.__annotations__ = {name: _plain(text) for name, text in inner.__annotations__.items()}
        face: Any = call
        face.__wrapped__, face.__name__ = twin, inner.__name__
        face.__doc__ = call.__doc__ or _plain(inner.__doc__)
        return call

    return named


def twin_repr(self: Any) -> str:
    """What the async object in `_inner` says of itself, under the twin's name."""
    return repr(self._inner).replace(type(self._inner).__name__, type(self).__name__, 1)


def blocking(
    method: Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[Any, _P], _T]:
    """Makes a blocking method of an async method of the object in `_inner`."""

    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return run_to_completion(method(self._inner, *args, **kwargs))

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
    """The same for a method whose result has a blocking twin."""

    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _U:
        return wrap(run_to_completion(method(self._inner, *args, **kwargs)))

    return with_signature_of(method)(call)


def iterated(
    method: Callable[Concatenate[Any, _P], AsyncIterator[_T]],
) -> Callable[Concatenate[Any, _P], Iterator[_T]]:
    """The same for a method that is an async generator: a plain iterator over what it yields."""

    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> Iterator[_T]:
        return iterate(method(self._inner, *args, **kwargs))

    return with_signature_of(method)(call)


def iterate(items: AsyncIterator[_T]) -> Iterator[_T]:
    """A plain iterator over an async one that never suspends."""
    advance = items.__anext__
    try:
        while True:
            try:
                # Not by `run_to_completion`: a coroutine around it takes as long as all the rest.
                next(advance().__await__())
            except StopIteration as done:
                item: _T = done.value
            except StopAsyncIteration:
                return
            else:
                raise RuntimeError("this iterator needs an event loop")
            yield item
    finally:
        close = getattr(items, "aclose", None)
        if close is not None:
            run_to_completion(close())


def iterate_messages(messages: AsyncIterator[Msg]) -> Iterator[SyncMsg]:
    """As `iterate`, of messages: the session made them such whose verbs block."""
    return cast("Iterator[SyncMsg]", iterate(messages))
