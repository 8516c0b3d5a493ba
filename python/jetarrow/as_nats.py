"""Makes every `import nats…` import jetarrow, for frameworks that are built on nats-py.

    import jetarrow.as_nats                              # first, before any module that imports nats
    from faststream.nats import NatsBroker

    python -m jetarrow.as_nats program.py arguments      # or: -m module arguments

The successors of nats-py are replaced too: `nats.client`, `nats.jetstream` and `nats.key_value`. `nats.server` is
imported from where it is installed.

A file `jetarrow.pth` in site-packages with the line `import jetarrow.as_nats` applies it to all programs of an
environment, and to their child processes.
"""

from __future__ import annotations

import importlib
import importlib.util
import runpy
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

# The version of nats-py whose modules are provided.
VERSION = "2.16.0"
_PARTS = ("aio", "errors", "js", "micro", "nuid", "protocol")
# Modules of the successors, which are in `jetarrow.nats`, and modules that are not replaced.
_SUCCESSORS = ("client", "jetstream", "key_value")
_FOREIGN = ("server",)


class _Nats(ModuleType):
    """The module `nats`: jetarrow with nats-py's version number."""

    def __init__(self) -> None:
        super().__init__("nats", "jetarrow, in place of nats-py.")
        self.__version__ = VERSION
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name in _PARTS + _SUCCESSORS + _FOREIGN:
            return importlib.import_module(f"nats.{name}")
        try:
            return getattr(importlib.import_module("jetarrow"), name)
        except AttributeError:
            raise _missing("nats", name) from None


def _missing(module: str, name: str) -> Exception:
    """Returns the error for a missing name: ImportError for `from … import`, which hides the text of AttributeError."""
    from jetarrow.core.cpython import is_from_import

    text = f"jetarrow, imported in place of nats-py {VERSION}, has no {name!r} in {module!r}"
    if is_from_import(sys._getframe(2)):
        return ImportError(f"{text}; MIGRATION.md lists the missing names and the reasons", name=name)
    return AttributeError(text, name=name)


def _with_missing_name_error(module: ModuleType, alias: str) -> Callable[[str], Any]:
    """Returns a `__getattr__` for a module of jetarrow whose error names the module of nats-py."""
    own: Callable[[str], Any] | None = vars(module).get("__getattr__")

    def __getattr__(name: str) -> Any:
        if own is not None:
            try:
                return own(name)
            except AttributeError:
                pass
        raise _missing(alias, name)

    return __getattr__


def _own_name(name: str) -> str:
    """The name of the module that replaces `nats.x`."""
    rest = name.removeprefix("nats.")
    return f"jetarrow.nats.{rest}" if rest.partition(".")[0] in _SUCCESSORS else f"jetarrow.{rest}"


class _Alias(Loader):
    """Loads `nats.x` as the module that replaces it."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if spec.name == "nats":
            return _Nats()
        module = importlib.import_module(_own_name(spec.name))
        self._own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        if not isinstance(module, _Nats):
            # It was loaded under its own name, and keeps its spec.
            alias, module.__spec__ = getattr(module.__spec__, "name", ""), self._own
            module.__getattr__ = _with_missing_name_error(module, alias)  # type: ignore[method-assign]


class _Finder(MetaPathFinder):
    """Finds `nats` and its submodules."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        first, _, rest = name.partition(".")
        if first != "nats":
            return None
        part = rest.partition(".")[0]
        if part in _FOREIGN and (found := _installed(name, path)) is not None:
            return found
        if rest and (part not in _PARTS + _SUCCESSORS or importlib.util.find_spec(_own_name(name)) is None):
            raise ModuleNotFoundError(
                f"No module named {name!r}: jetarrow, imported in place of nats-py {VERSION} (jetarrow.as_nats), has no"
                " such module; MIGRATION.md lists the missing names and the reasons",
                name=name,
            )
        return ModuleSpec(name, _Alias(), origin="jetarrow", is_package=not rest)


def _installed(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """Finds a module of another package below `nats`."""
    places = path or [str(Path(entry, "nats")) for entry in sys.path]
    return PathFinder.find_spec(name, places)


def _install() -> None:
    found = sys.modules.get("nats")
    if found is not None and not isinstance(found, _Nats):
        raise ImportError(
            f"nats-py was imported before jetarrow.as_nats (from {getattr(found, '__file__', 'unknown')}), and its"
            " importers use its classes: import jetarrow.as_nats before any module that imports nats",
            name="nats",
        )
    sys.meta_path.insert(0, _Finder())


def _main(arguments: list[str]) -> None:
    """Runs a program as Python does."""
    if not arguments or arguments == ["-m"]:
        print("usage: python -m jetarrow.as_nats (program.py | -m module) [arguments]", file=sys.stderr)
        raise SystemExit(2)
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = arguments
    if not sys.flags.safe_path:
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    # Imported under its own name, so that a program which imports it gets the same module.
    importlib.import_module("jetarrow.as_nats")._main(sys.argv[1:])
else:
    _install()
