"""Gives the methods of jetarrow.sync that wrap async ones their parameters and docstrings in the reference.

The sources write `fetch = blocking(AsyncPullSubscription.fetch)`: without this extension griffe sees an attribute
without a docstring, which the reference leaves out.
"""

from __future__ import annotations

from typing import Any

import griffe

# Functions of jetarrow.sync.blocking that make a method of the one in their first argument.
WRAPPERS = {"blocking", "blocking_messages", "forwarded", "iterated", "wrapped"}
DECORATOR = "with_signature_of"
# As in jetarrow.sync.blocking, and the calls of the async API in docstrings.
_REPLACEMENTS = (("async for", "for"), ("async with", "with"), ("await ", ""))
# Classes in annotations of the async methods, and those of jetarrow.sync.
_TYPES = {
    "JetStreamContext": "JetStream",
    "Msg": "SyncMsg",
    "list[Msg]": "list[SyncMsg]",
    "AsyncIterator[Msg]": "Iterator[SyncMsg]",
}


class SyncMethods(griffe.Extension):
    """Replaces the attributes by functions after the package is loaded."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Called by griffe once for each package."""
        if pkg.name != "jetarrow" or "sync" not in pkg.members:
            return
        for module in pkg["sync"].members.values():
            if isinstance(module, griffe.Module):
                for found in [member for member in module.members.values() if isinstance(member, griffe.Class)]:
                    _complete(pkg, found)


def _complete(pkg: griffe.Module, found: griffe.Class) -> None:
    for name, member in list(found.members.items()):
        if isinstance(member, griffe.Attribute) and isinstance(call := member.value, griffe.ExprCall):
            if str(call.function) in WRAPPERS and (source := _source(pkg, call.arguments[0])):
                found.set_member(name, _copy(member, source))
        elif isinstance(member, griffe.Function):
            for decorator in member.decorators:
                call = decorator.value
                is_copy = isinstance(call, griffe.ExprCall) and str(call.function) == DECORATOR
                if is_copy and (source := _source(pkg, call.arguments[0])):
                    found.set_member(name, _copy(member, source))


def _source(pkg: griffe.Module, reference: Any) -> griffe.Function | None:
    """The async method that an expression such as `AsyncStream.info` names, also if a base class has it."""
    path, _, name = reference.canonical_path.rpartition(".")
    try:
        owner = pkg[path.removeprefix("jetarrow.")]
        method = owner.all_members[name]
        method = method.final_target if isinstance(method, griffe.Alias) else method
    except (KeyError, griffe.AliasResolutionError, griffe.CyclicAliasError):
        return None
    return method if isinstance(method, griffe.Function) else None


def _copy(member: griffe.Attribute | griffe.Function, source: griffe.Function) -> griffe.Function:
    """The method with the place, the docstring and the return type of `member`, if it has them, else of `source`."""
    returns = member.returns if isinstance(member, griffe.Function) else None
    copied = griffe.Function(
        member.name,
        parameters=source.parameters,
        returns=returns or _without_async(source.returns),
        lineno=member.lineno,
        endlineno=member.endlineno,
    )
    text = (member.docstring or source.docstring or griffe.Docstring("")).value
    for words, other in _REPLACEMENTS:
        text = text.replace(words, other)
    if text:
        copied.docstring = griffe.Docstring(text, parent=copied, parser="google")
    return copied


def _without_async(returns: Any) -> Any:
    """The annotation, as text with the blocking type if that has another name."""
    return _TYPES.get(str(returns), returns)
