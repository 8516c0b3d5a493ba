"""Protocols of Arrow data and schemas of any library (PyCapsule interface)."""

from __future__ import annotations

from typing import Any, Protocol

from jetarrow.core.errors import UnsupportedError


class ArrowArray(Protocol):
    """An object with one Arrow array or batch: pyarrow, arro3, nanoarrow, a `MessageBatch`."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


class ArrowStream(Protocol):
    """An object with a stream of Arrow arrays: chunked arrays, tables, readers; polars, duckdb, pandas."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowSchema(Protocol):
    """An object with an Arrow schema or a struct type."""

    def __arrow_c_schema__(self) -> object: ...


ArrowProducer = ArrowArray | ArrowStream


def needs_pyarrow(feature: str) -> Any:
    """Imports pyarrow for a feature that needs it.

    Args:
        feature: The feature, for the error.

    Raises:
        UnsupportedError: It is not installed; the text has the command to install it.
    """
    try:
        import pyarrow
    except ImportError:
        message = f'{feature} needs pyarrow: pip install "jetarrow[arrow]"'
        raise UnsupportedError(feature, "pyarrow", "no pyarrow", message=message) from None
    return pyarrow
