"""The validated options of one bulk publish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jetarrow.core.arguments import check_whole
from jetarrow.jetstream.literals import ExtraColumns, OnReject, PublishMode, check_literal

# Bytes of unacknowledged messages, if the caller gives no limit.
DEFAULT_MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PublishSpec:
    """The options that `publish_batch` and `publish_table` share; documented at `publish_batch`.

    Raises:
        ValueError: An option has an invalid value.
    """

    mode: PublishMode = "window"
    chunk: int | None = None
    on_reject: OnReject | None = None
    expected_stream: str | None = None
    max_inflight: int | None = None
    max_bytes: int = DEFAULT_MAX_BYTES
    timeout: float = 30.0
    resend: bool | None = None
    extra: ExtraColumns = "error"

    def __post_init__(self) -> None:
        """Validates some options; the native core validates the others before it sends anything."""
        check_literal("extra", self.extra, ExtraColumns)
        if self.on_reject is not None:
            check_literal("on_reject", self.on_reject, OnReject)
            if self.chunk is None:
                raise ValueError('on_reject= needs mode="atomic" and chunk=')
        if self.chunk is not None:
            check_whole(chunk=self.chunk)

    def native_options(self) -> Mapping[str, Any]:
        """The keywords of the native `publish_batch` that are the same for all rows."""
        return {
            "mode": self.mode,
            "chunk": self.chunk,
            "split": self.on_reject == "split",
            "expected_stream": self.expected_stream,
            "max_inflight": self.max_inflight,
            "max_bytes": self.max_bytes,
            "timeout": self.timeout,
            "resend": self.resend,
            "ignore_extra": self.extra == "ignore",
        }
