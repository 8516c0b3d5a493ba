"""Streaming reader for invalid options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from jetarrow.spark.errors import hide_traceback


class RefusedStreamReader(DataSourceStreamReader):
    """Reader that raises an error in every method, because its options are not valid.

    Args:
        problem: Text of the error.
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
