"""NUID: short unique names, for example for inboxes and consumers."""

from __future__ import annotations

import os
import secrets
import threading

__all__ = ["NUID"]

DIGITS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
BASE = len(DIGITS)
PREFIX_LENGTH = 12
SEQ_LENGTH = 10
TOTAL_LENGTH = PREFIX_LENGTH + SEQ_LENGTH
MAX_SEQ = BASE**SEQ_LENGTH
# Bounds of the increment between two names.
MIN_INC = 33
MAX_INC = 333
INC = MAX_INC - MIN_INC

# Two digits at a time halve the number of divisions.
_PAIRS = [bytes((high, low)) for high in DIGITS for low in DIGITS]
_SQUARE = BASE * BASE


class NUID:
    """Generates unique names of 22 letters and digits: a random prefix and an increasing number.

    The prefix changes when the number reaches `MAX_SEQ`, and in a forked process, so that no two processes generate the
    same name. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reseed()

    def next(self) -> bytearray:
        """Returns the next name: 22 ASCII letters and digits."""
        with self._lock:
            if self._pid != os.getpid():
                self._reseed()
            self._seq += self._inc
            if self._seq >= MAX_SEQ:
                self._reseed()
            number, prefix = self._seq, self._prefix
        parts = []
        for _ in range(SEQ_LENGTH // 2):
            number, pair = divmod(number, _SQUARE)
            parts.append(_PAIRS[pair])
        parts.append(prefix)
        parts.reverse()
        return bytearray().join(parts)

    def randomize_prefix(self) -> None:
        """Sets a new random prefix."""
        self._prefix = bytes(secrets.choice(DIGITS) for _ in range(PREFIX_LENGTH))

    def reset_sequential(self) -> None:
        """Sets the number and its increment to new random values."""
        self._seq = secrets.randbelow(MAX_SEQ)
        self._inc = MIN_INC + secrets.randbelow(INC)

    def _reseed(self) -> None:
        self._pid = os.getpid()
        self.randomize_prefix()
        self.reset_sequential()
