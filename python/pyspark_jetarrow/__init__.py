"""Entry point by which Spark discovers ``format("jetstream")`` without a registration.

Spark imports every top-level module whose name begins with ``pyspark_`` and looks for its ``DefaultSource``.
A module that raises at import makes every Python data source of the session fail to load. So this one imports the data
source on first access, and an import error is raised when the format is used.
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from typing import Any

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> Any:
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    source: Any
    try:
        from jetarrow.spark.datasource import JetStreamSource

        source = JetStreamSource
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in a native module is not an Exception
        source = _unavailable(error)
    globals()[name] = source
    return source


def _unavailable(cause: BaseException) -> Any:
    """Create a source that raises `cause` on use; Spark would replace it by DATA_SOURCE_NOT_FOUND."""
    from pyspark.sql.datasource import DataSource

    message = f"jetarrow cannot be imported by {sys.executable}: {type(cause).__name__}: {cause}"

    # Local, so that it is pickled by value and raises this cause in any process.
    class Unavailable(DataSource):
        def __init__(self, options: MutableMapping[str, str]) -> None:
            raise ImportError(message)

        @classmethod
        def name(cls) -> str:
            return "jetstream"

    return Unavailable
