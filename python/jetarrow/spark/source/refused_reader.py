"""A streaming reader for options that are not valid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from jetarrow.spark.errors import hide_traceback


class RefusedStreamReader(DataSourceStreamReader):
    """Stands for a reader whose options are not valid: every method says so.

    Args:
        problem: What is not valid.
    """

    def __init__(self, problem: str) -> None:
        self._problem = problem

    @hide_traceback()
    def initialOffset(self) -> dict[str, Any]:
        """Raise ValueError."""
        raise ValueError(self._problem)

    @hide_traceback()
    def latestOffset(self, start: dict[str, Any] | None = None, limit: object = None) -> dict[str, Any]:
        """Raise ValueError."""
        raise ValueError(self._problem)

    @hide_traceback()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Raise ValueError."""
        raise ValueError(self._problem)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raise ValueError."""
        with hide_traceback():
            raise ValueError(self._problem)
        yield
