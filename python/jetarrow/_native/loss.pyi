"""Messages that are gone."""

from typing import final

@final
class Loss:
    """Messages that a read asked for and that the stream no longer has. Its `str` says so, and what to do about it.

    Args:
        stream: The stream's name.
        asked: The range that was asked for: first sequence, and one past the last.
        available: The first sequence that can still be read.
    """

    def __new__(cls, stream: str, asked: tuple[int, int], available: int) -> Loss: ...
    @property
    def stream(self) -> str:
        """The stream's name."""

    @property
    def asked(self) -> tuple[int, int]:
        """The range that was asked for, as in `DataLossError.asked`."""

    @property
    def available(self) -> int:
        """The first sequence that can still be read."""

    @property
    def summary(self) -> str:
        """The text without what to do about it."""

    def __eq__(self, other: object, /) -> bool: ...
    def __getnewargs__(self) -> tuple[str, tuple[int, int], int]: ...
