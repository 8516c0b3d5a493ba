"""Errors of misspelt keywords, with the nearest valid name."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NoReturn, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

_UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'")


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """The most similar name, without regard to case; None if none is similar."""
    import difflib  # imported here, because it is rarely needed

    by_fold = {name.casefold(): name for name in names}
    found = difflib.get_close_matches(name.casefold(), by_fold, 1)
    return by_fold[found[0]] if found else None


def did_you_mean(name: str | None) -> str:
    """The suggestion at the end of an error text."""
    return "" if name is None else f"; did you mean {name!r}?"


def raise_nearest_keyword(error: TypeError, function: Callable[..., Any]) -> NoReturn:
    """Raises the error of a call, with the nearest keyword if the call has an unknown one.

    Args:
        error: An error that was caught in the frame that calls `function`.
        function: The called function.

    Raises:
        TypeError: Always.
    """
    import inspect  # imported here, because it is rarely needed

    # An error that the function raises has another frame; the suggestion belongs to the call in that frame.
    is_of_call = error.__traceback__ is not None and error.__traceback__.tb_next is None
    found = _UNEXPECTED.search(str(error)) if is_of_call else None
    near = nearest_name(found[1], inspect.signature(function).parameters) if found else None
    if near is None:
        raise error
    raise TypeError(f"{error}{did_you_mean(near)}") from None


def check_keywords(call: str, given: Iterable[str], known: Iterable[str], others: Iterable[str] = ()) -> None:
    """Rejects unknown keywords of a call that takes any.

    Args:
        call: The call, for the error text.
        given: The given keywords.
        known: The valid keywords among them.
        others: Other valid keywords of the call, to suggest.

    Raises:
        TypeError: A keyword is unknown; the text has the nearest valid one.
    """
    valid = list(known)
    for name in given:
        if name not in valid:
            near = nearest_name(name, [*valid, *others])
            raise TypeError(f"{call} has no option {name!r}{did_you_mean(near)}")


def keywords_of(function: Callable[..., Any]) -> list[str]:
    """The names of a function's parameters."""
    import inspect  # imported here, because it is rarely needed

    return [name for name in inspect.signature(function).parameters if name not in ("self", "options", "extras")]


def suggests_keywords(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorates a function so that a misspelt keyword is an error with the nearest name.

    It adds a call, so it is for functions that are not called per message.
    """

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            raise_nearest_keyword(error, function)

    return call


def suggests_keywords_async(
    function: Callable[_P, Coroutine[Any, Any, _T]],
) -> Callable[_P, Coroutine[Any, Any, _T]]:
    """As `suggests_keywords`, for a coroutine function."""

    @functools.wraps(function)
    async def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            coroutine = function(*args, **kwargs)
        except TypeError as error:
            raise_nearest_keyword(error, function)
        return await coroutine

    return call


def suggests_fields(cls: type[_T]) -> type[_T]:
    """Decorates a dataclass so that a misspelt field is an error with the nearest name."""
    setattr(cls, "__init__", suggests_keywords(vars(cls)["__init__"]))  # noqa: B010 - mypy refuses the assignment
    return cls
