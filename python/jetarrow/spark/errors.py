"""Removal of tracebacks from errors of the data source."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from jetarrow.core.errors import Error


@contextmanager
def hide_traceback() -> Iterator[None]:
    """Have Spark show errors of this package without a traceback; other exceptions keep it.

    Spark writes a worker's traceback before the message unless an environment variable is set in the worker. The worker
    exits after the exception, so nothing else is affected. Outside of Spark's workers this has no effect.
    """
    try:
        yield
    except Exception as error:
        # Only ValueError itself: subclasses, such as those of Arrow, indicate a defect.
        if (isinstance(error, Error) or type(error) is ValueError) and _in_spark_worker():
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def _in_spark_worker() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
