"""Docstrings of blocking methods, made from those of the async ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])

# Replacements in docstrings and annotations of async methods.
_REPLACEMENTS = (
    ("async for", "for"),
    ("async with", "with"),
    ("await ", ""),
    ("AsyncIterator", "Iterator"),
    ("JetStreamContext", "JetStream"),
    ("All callbacks are coroutine functions and run", "All callbacks are plain functions and run"),
    ("A callback is not a coroutine function.", "A callback is a coroutine function."),
)
# A docstring that refers to the async method, and a remark after the reference.
_REFERENCE = re.compile(r"As `[\w.]+`(?:[,:;.]\s*|$)(.*)", re.DOTALL)


def without_async(text: Any) -> Any:
    """A docstring or an annotation in the words of the blocking classes; another value unchanged."""
    if isinstance(text, str):
        for word, other in _REPLACEMENTS:
            text = text.replace(word, other)
    return text


def completed_docstring(own: str | None, inner: str | None) -> str | None:
    """The docstring of a method that delegates to an async one.

    Args:
        own: Its docstring. A reference to the async method is replaced by the method's docstring, with the remark after
            the reference below the first line. Another docstring is kept.
        inner: The docstring of the async method; None with -OO.
    """
    if own and not (reference := _REFERENCE.match(own)):
        return own
    inner = without_async(inner)
    remark = " ".join(reference[1].split()) if own and reference else ""
    if not remark or not inner:
        return inner or own
    summary, gap, rest = inner.partition("\n")
    margin = re.match(r"\s*", rest.lstrip("\n"))
    indent = margin[0] if margin and rest.strip() else " " * 8
    return f"{summary}\n\n{indent}In `jetarrow.sync`: {remark}{gap}{rest}"


def documented_as(method: Callable[..., Any]) -> Callable[[_F], _F]:
    """Decorates a method that delegates to an async one, so that `help` shows the full docstring.

    Args:
        method: The async method.
    """

    def decorate(call: _F) -> _F:
        call.__doc__ = completed_docstring(call.__doc__, method.__doc__)
        return call

    return decorate


# An entry of a docstring that refers to the entry of the same name of another function, and a remark.
_ENTRY_REFERENCE = re.compile(r"^( +)(\*{0,2}\w+): As `(?:\w+\.)*(\w+)`(?:\.|[,:;] (.*))?$", re.MULTILINE)


def _entries(text: str) -> dict[str, list[str]]:
    """The entries of a docstring's sections, as lines without indentation, by name."""
    found = re.findall(r"^ {4}(\*{0,2}\w+): (.*(?:\n {8,}.*)*)", _cleaned(text), re.MULTILINE)
    return {name: [line.strip() for line in entry.split("\n")] for name, entry in found}


def _cleaned(text: str) -> str:
    """A docstring without common indentation, as `inspect.cleandoc`, whose module is not imported here."""
    lines = text.expandtabs().split("\n")
    margins = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    margin = min(margins, default=0)
    return "\n".join([lines[0].lstrip(), *(line[margin:] for line in lines[1:])])


def with_entries_of(*methods: Callable[..., Any]) -> Callable[[_F], _F]:
    """Decorates a function so that `help` shows entries that its docstring takes from other functions.

    Args:
        methods: Functions to which entries of the docstring refer: "columns: As `js.read`."
    """
    entries = {method.__name__: _entries(method.__doc__) for method in methods if method.__doc__}

    def expand(match: re.Match[str]) -> str:
        indent, name, function, remark = match.groups()
        lines = entries.get(function, {}).get(name)
        if lines is None:
            return match[0]
        if remark:
            lines = [*lines, f"Here: {remark}"]
        return f"\n{indent}    ".join([f"{indent}{name}: {lines[0]}", *lines[1:]])

    def decorate(call: _F) -> _F:
        if call.__doc__:
            call.__doc__ = _ENTRY_REFERENCE.sub(expand, call.__doc__)
        return call

    return decorate
