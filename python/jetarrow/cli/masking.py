"""Secrets that the command must not print: `jetarrow.core.redaction`, and the addresses that were typed or are set.

An address with a password is refused as an argument, and a usage error would print it. It is masked as it was typed,
because a password may hold white space, which ends a URL in a text.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence

from jetarrow.core.redaction import redact, redact_url

# `user:password@host` without a scheme.
_LOGIN = re.compile(r"[^@]*:.*@[\w.\[\]:-]+/?", re.DOTALL)
# Texts with a secret, and what is shown of them.
_known: dict[str, str] = {}


def _address(text: str) -> str | None:
    """The address in an argument, if it has a user or a password."""
    _, _, value = text.partition("=") if text.startswith("-") else ("", "", text)
    return value if "@" in value and ("://" in value or _LOGIN.fullmatch(value)) else None


@contextlib.contextmanager
def known(arguments: Sequence[str]) -> Iterator[None]:
    """Within the block `mask` masks the addresses among these arguments, and that of $NATS_URL, wherever they occur."""
    for text in (*arguments, os.environ.get("NATS_URL", "")):
        if (address := _address(text)) is not None:
            # Errors quote what was typed.
            _known[address] = _known[repr(address)[1:-1]] = redact_url(address)
    try:
        yield
    finally:
        _known.clear()


def mask(text: str) -> str:
    """The text without passwords, tokens, seeds and JWTs."""
    for secret, shown in _known.items():
        text = text.replace(secret, shown)
    return redact(text)
