"""Errors that say everything in their line reach the user without a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from jetarrow.core.errors import Error


@contextmanager
def hide_traceback() -> Iterator[None]:
    """Let our own errors reach Spark as one line, the message first; bugs keep their traceback.

    Spark puts a worker's traceback before the message, unless a variable in that process says otherwise. The
    worker ends with the exception, so nothing else is affected; outside Spark's workers nothing is done.
    """
    try:
        yield
    except Exception as error:
        # Exactly ValueError: its subclasses, of Arrow for one, would be bugs.
        if (isinstance(error, Error) or type(error) is ValueError) and _in_spark_worker():
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def _in_spark_worker() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
