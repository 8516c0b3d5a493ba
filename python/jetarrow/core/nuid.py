"""Short unique names: for inboxes, consumers, and whatever else needs one."""

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
# How far the sequence goes on with every name.
MIN_INC = 33
MAX_INC = 333
INC = MAX_INC - MIN_INC

# Two digits at a time: half the divisions.
_PAIRS = [bytes((high, low)) for high in DIGITS for low in DIGITS]
_SQUARE = BASE * BASE


class NUID:
    """Makes unique names of 22 letters and digits: a random prefix, then a number that goes on.

    The prefix changes when the numbers are used up, and in a forked process, so that no two processes give the same
    name. Any thread may call it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._renew()

    def next(self) -> bytearray:
        """The next name: 22 ASCII letters and digits."""
        with self._lock:
            if self._pid != os.getpid():
                self._renew()
            self._seq += self._inc
            if self._seq >= MAX_SEQ:
                self._renew()
            number, prefix = self._seq, self._prefix
        parts = []
        for _ in range(SEQ_LENGTH // 2):
            number, pair = divmod(number, _SQUARE)
            parts.append(_PAIRS[pair])
        parts.append(prefix)
        parts.reverse()
        return bytearray().join(parts)

    def randomize_prefix(self) -> None:
        """Takes a new random prefix."""
        self._prefix = bytes(secrets.choice(DIGITS) for _ in range(PREFIX_LENGTH))

    def reset_sequential(self) -> None:
        """Starts the number, and the step that it takes with every name, at a new random place."""
        self._seq = secrets.randbelow(MAX_SEQ)
        self._inc = MIN_INC + secrets.randbelow(INC)

    def _renew(self) -> None:
        self._pid = os.getpid()
        self.randomize_prefix()
        self.reset_sequential()
