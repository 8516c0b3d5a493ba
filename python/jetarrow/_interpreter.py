"""Checks at import that the interpreter supports the native core, so that the error names the cause."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def check() -> None:
    """Checks that the interpreter supports the native core.

    Raises:
        ImportError: The interpreter is a subinterpreter, or a free-threaded build without a native core, or the package
            is in a zip file.
    """
    if type(getattr(__spec__, "loader", None)).__name__ == "zipimporter":
        raise ImportError(
            "jetarrow cannot be imported from a zip file, such as a wheel in spark-submit --py-files: its native "
            "core must be a file; install the wheel, or ship an environment that contains it (--archives)"
        )
    if _is_subinterpreter():
        raise ImportError(
            "jetarrow cannot be imported in a subinterpreter: its native core belongs to the main interpreter; "
            "use threads or processes"
        )
    if ("t" in getattr(sys, "abiflags", "") or "free-threading" in sys.version) and not _has_free_threaded_core():
        raise ImportError(
            f"jetarrow has no native core for free-threaded Python ({sys.version.split()[0]}t): "
            "use the build of the same version that has the GIL"
        )


def _has_free_threaded_core() -> bool:
    # Checked before loading: a free-threaded Python also loads a core of the stable ABI, and fails with it.
    found = importlib.util.find_spec("jetarrow._jetarrow")
    tags = Path((found and found.origin) or "").name.split(".")[1:-1]
    return tags not in ([], ["abi3"])


def _is_subinterpreter() -> bool:
    # The first exists from Python 3.13 on, the second before. This module does not import core/cpython.py, which would
    # double the time of `import jetarrow`.
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters = importlib.import_module(name)
            return bool(interpreters.get_current() != interpreters.get_main())
        except (ImportError, AttributeError):
            continue
    return False
