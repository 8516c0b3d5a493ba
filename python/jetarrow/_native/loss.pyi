"""Data loss as a value."""

from typing import final

@final
class Loss:
    """Messages in the requested range that the stream no longer has. The `str` has a remedy too.

    Args:
        stream: The stream's name.
        asked: The requested range: first sequence, and the sequence after the last.
        available: The first sequence that can still be read.
    """

    def __new__(cls, stream: str, asked: tuple[int, int], available: int) -> Loss: ...
    @property
    def stream(self) -> str:
        """The stream's name."""

    @property
    def asked(self) -> tuple[int, int]:
        """The requested range, as in `DataLossError.asked`."""

    @property
    def available(self) -> int:
        """The first sequence that can still be read."""

    @property
    def summary(self) -> str:
        """The text without the remedy."""

    def __eq__(self, other: object, /) -> bool: ...
    def __getnewargs__(self) -> tuple[str, tuple[int, int], int]: ...
