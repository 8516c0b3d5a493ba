"""Which interpreters the native core can be used in: said at import, and not by whatever fails first."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def check() -> None:
    """Refuses an interpreter that the native core does not know.

    Raises:
        ImportError: It is a subinterpreter, a free-threaded build for which there is no native core, or the package was
            found in a zip file.
    """
    if type(getattr(__spec__, "loader", None)).__name__ == "zipimporter":
        raise ImportError(
            "jetarrow cannot be imported out of a zip file, such as a wheel in spark-submit --py-files: its native "
            "core has to be a file; install the wheel, or ship an environment that has it (--archives)"
        )
    if _is_subinterpreter():
        raise ImportError(
            "jetarrow cannot be imported in a subinterpreter: its native core belongs to the main one; "
            "use threads, or a process of its own"
        )
    if ("t" in getattr(sys, "abiflags", "") or "free-threading" in sys.version) and not _has_free_threaded_core():
        raise ImportError(
            f"jetarrow has no native core for free-threaded Python ({sys.version.split()[0]}t): "
            "use the build of the same version that has the GIL"
        )


def _has_free_threaded_core() -> bool:
    # Looked at before it is loaded: such a Python loads a core of the stable ABI too, whose objects are not its own.
    found = importlib.util.find_spec("jetarrow._jetarrow")
    tags = Path((found and found.origin) or "").name.split(".")[1:-1]
    return tags not in ([], ["abi3"])


def _is_subinterpreter() -> bool:
    # One of them is there from Python 3.13 on, the other one before; neither is needed where there are no others.
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters = importlib.import_module(name)
            return bool(interpreters.get_current() != interpreters.get_main())
        except (ImportError, AttributeError):
            continue
    return False
