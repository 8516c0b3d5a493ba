"""Masking of secrets in output: `jetarrow.core.redaction`, and addresses of the command line and of $NATS_URL.

An address with a password is rejected as an argument, and a usage error would print it. The whole argument is masked,
because a password may contain white space, which ends a URL in a text.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence

from jetarrow.core.redaction import redact, redact_url

# `user:password@host` without a scheme.
_LOGIN = re.compile(r"[^@]*:.*@[\w.\[\]:-]+/?", re.DOTALL)
# Texts with a secret: their masked form.
_known: dict[str, str] = {}


def _address(text: str) -> str | None:
    """Return the address in an argument if it has a user or a password."""
    _, _, value = text.partition("=") if text.startswith("-") else ("", "", text)
    return value if "@" in value and ("://" in value or _LOGIN.fullmatch(value)) else None


@contextlib.contextmanager
def known(arguments: Sequence[str]) -> Iterator[None]:
    """Have `mask` mask the addresses among these arguments and that of $NATS_URL within the block."""
    for text in (*arguments, os.environ.get("NATS_URL", "")):
        if (address := _address(text)) is not None:
            # Errors quote arguments by `repr`.
            _known[address] = _known[repr(address)[1:-1]] = redact_url(address)
    try:
        yield
    finally:
        _known.clear()


def mask(text: str) -> str:
    """Return the text without passwords, tokens, seeds and JWTs."""
    for secret, shown in _known.items():
        text = text.replace(secret, shown)
    return redact(text)
