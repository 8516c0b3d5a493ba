"""What Arrow data and schemas are, whatever library they come from (PyCapsule interface)."""

from __future__ import annotations

from typing import Any, Protocol

from jetarrow.core.errors import UnsupportedError


class ArrowArray(Protocol):
    """What has one Arrow array or batch: pyarrow, arro3, nanoarrow, a `MessageBatch`."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


class ArrowStream(Protocol):
    """What has Arrow data in pieces: chunked arrays, tables, readers; polars, duckdb, pandas."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowSchema(Protocol):
    """What has an Arrow schema, or a struct type."""

    def __arrow_c_schema__(self) -> object: ...


ArrowProducer = ArrowArray | ArrowStream


def needs_pyarrow(feature: str) -> Any:
    """The module pyarrow, for what cannot do without.

    Args:
        feature: What needs it, for the error.

    Raises:
        UnsupportedError: It is not installed; the text says how to get it.
    """
    try:
        import pyarrow
    except ImportError:
        message = f'{feature} needs pyarrow: pip install "jetarrow[arrow]"'
        raise UnsupportedError(feature, "pyarrow", "no pyarrow", message=message) from None
    return pyarrow
