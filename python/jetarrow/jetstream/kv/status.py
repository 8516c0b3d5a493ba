"""What a bucket is and holds."""

from __future__ import annotations

from dataclasses import dataclass

from jetarrow.jetstream import models


@dataclass(frozen=True)
class BucketStatus:
    """State and configuration of a bucket. Public as `KeyValue.BucketStatus`.

    Attributes:
        stream_info: All that the server says about the bucket's stream.
        bucket: The bucket's name.
    """

    stream_info: models.StreamInfo
    bucket: str

    @property
    def values(self) -> int:
        """Stored revisions, markers counted."""
        return self.stream_info.state.messages

    @property
    def history(self) -> int:
        """Most revisions kept of a key."""
        return self.stream_info.config.max_msgs_per_subject

    @property
    def ttl(self) -> float | None:
        """Seconds that a value lives; 0 or None is for ever."""
        return self.stream_info.config.max_age

    @property
    def marker_ttl(self) -> float | None:
        """Seconds that a marker stays where a key expired; None is no markers."""
        return self.stream_info.config.subject_delete_marker_ttl
