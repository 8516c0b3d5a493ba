"""Masks secrets in texts that are shown: errors, logs, and the output of the command.

One rule for all of them. It masks too much rather than too little: the part of a URL before its last `@` is masked as a
whole, because a password may hold any character, also `/`, `,` and `@`.
"""

from __future__ import annotations

import errno
import os
import re

MASK = "***"

# Seeds of nkeys, and JWTs.
_KEY = re.compile(r"\bS[ACNOUX][A-Z2-7]{56}\b|\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?")
# User and password of a URL in a text, up to the last @ before white space; also of a URL that is percent-encoded, once
# or more often, because it is a parameter of another one.
_USERINFO = re.compile(r"(://|%(?:25)*3a%(?:25)*2f%(?:25)*2f)\S*(@|%(?:25)*40)", re.IGNORECASE)
# An address that is sound and has no user.
ADDRESS = re.compile(r"(?:\w+://)?(?:\[[\w:.%]*\]|[\w.-]*)(?::\d*)?/?")
_SCHEMES = "nats|opentls|tls|wss?|https?|socks[45][ah]?"
# A comma that separates two servers: a comma in a password is not followed by a scheme.
_NEXT_SERVER = re.compile(rf",(?=\s*(?:{_SCHEMES})://)", re.IGNORECASE)
_SCHEME = re.compile(rf"(\s*(?:{_SCHEMES})://)(.*)", re.IGNORECASE | re.DOTALL)


def redact(text: str) -> str:
    """Mask seeds, JWTs, and the users and passwords of URLs, wherever they occur in a text."""
    return _KEY.sub(MASK, _USERINFO.sub(rf"\1{MASK}\2", text))


def redact_url(text: str) -> str:
    """Mask users, passwords and tokens of a URL, or of several with commas.

    Stricter than `redact`, because the whole text is known to be addresses: these may have no scheme, and their
    passwords may hold white space.
    """
    if "@" not in text:
        return redact(text)
    return ",".join(map(_redact_server, _NEXT_SERVER.split(text)))


def _redact_server(text: str) -> str:
    before, at, host = text.rpartition("@")
    if not at:
        # Without an @ it may be the part of a password before a comma.
        return text if all(ADDRESS.fullmatch(address.strip()) for address in text.split(",")) else MASK
    scheme = _SCHEME.fullmatch(before)
    return redact(f"{scheme[1] if scheme else ''}{MASK}@{host}")


# What a key, a seed or a JWT has, and the path of a file hardly: a seed's letters, a JWT's beginning, a line break or
# another control character, a part as long as nobody names a file.
_SECRET = re.compile(r"\bS[A-Z2-7]{15,}|\beyJ|-----|[\x00-\x1f\x7f]|[^/\\]{65,}")


def secret_path(name: str, given: object) -> str:
    """The path that an option was given.

    Args:
        name: The option, for messages.
        given: What it was given.

    Raises:
        TypeError: It is no path.
        FileNotFoundError: There is no such file, and the text looks like what would be in it: it is not shown.
    """
    if not isinstance(given, str | os.PathLike):
        raise TypeError(f"{name} must be a path, not {type(given).__name__}")
    path = os.fspath(given)
    if not isinstance(path, str):
        path = os.fsdecode(path)
    if _SECRET.search(path) and not _exists(path):
        raise FileNotFoundError(
            errno.ENOENT, f"{name} takes the path of a file, and got none (not shown: it looks like a secret)"
        )
    return path


def _exists(path: str) -> bool:
    try:
        return os.path.exists(path)
    except ValueError:
        return False
