"""Masks secrets in error texts, log records and command output, and keeps secrets passed as paths out of them.

All texts use the same rule. It masks rather too much: the part of a URL before its last `@` is masked completely,
because a password may contain any character, also `/`, `,` and `@`.
"""

from __future__ import annotations

import errno
import os
import re

MASK = "***"

# Seeds of nkeys, and JWTs.
_KEY = re.compile(r"\bS[ACNOUX][A-Z2-7]{56}\b|\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?")
# User and password of a URL in a text, up to the last @ before white space. The URL may be percent-encoded once or
# several times, as a parameter of another URL.
_USERINFO = re.compile(r"(://|%(?:25)*3a%(?:25)*2f%(?:25)*2f)\S*(@|%(?:25)*40)", re.IGNORECASE)
# A valid address without a user.
ADDRESS = re.compile(r"(?:\w+://)?(?:\[[\w:.%]*\]|[\w.-]*)(?::\d*)?/?")
_SCHEMES = "nats|opentls|tls|wss?|https?|socks[45][ah]?"
# A comma between two servers: a scheme follows it, unlike a comma in a password.
_NEXT_SERVER = re.compile(rf",(?=\s*(?:{_SCHEMES})://)", re.IGNORECASE)
_SCHEME = re.compile(rf"(\s*(?:{_SCHEMES})://)(.*)", re.IGNORECASE | re.DOTALL)


def redact(text: str) -> str:
    """Masks seeds, JWTs, and the users and passwords of URLs in a text."""
    return _KEY.sub(MASK, _USERINFO.sub(rf"\1{MASK}\2", text))


def redact_url(text: str) -> str:
    """Masks users, passwords and tokens of a URL, or of several separated by commas.

    Stricter than `redact`, because the whole text consists of addresses: they may lack a scheme, and passwords may
    contain white space.
    """
    if "@" not in text:
        return redact(text)
    return ",".join(map(_redact_server, _NEXT_SERVER.split(text)))


def _redact_server(text: str) -> str:
    before, at, host = text.rpartition("@")
    if not at:
        # Without an @, the text may be the part of a password before a comma.
        return text if all(ADDRESS.fullmatch(address.strip()) for address in text.split(",")) else MASK
    scheme = _SCHEME.fullmatch(before)
    return redact(f"{scheme[1] if scheme else ''}{MASK}@{host}")


# Marks of keys, seeds and JWTs that paths do not have: the letters of a seed, the beginning of a JWT, PEM dashes,
# control characters, a part of more than 64 characters.
_SECRET = re.compile(r"\bS[A-Z2-7]{15,}|\beyJ|-----|[\x00-\x1f\x7f]|[^/\\]{65,}")


def secret_path(name: str, given: object) -> str:
    """Returns the path that an option was given, unless the value looks like the secret itself.

    Args:
        name: The option, for error texts.
        given: The value of the option.

    Raises:
        TypeError: The value is not a path.
        FileNotFoundError: The file does not exist, and the value looks like a secret; the text does not contain it.
    """
    if not isinstance(given, str | os.PathLike):
        raise TypeError(f"{name} must be a path, not {type(given).__name__}")
    path = os.fspath(given)
    if not isinstance(path, str):
        path = os.fsdecode(path)
    if _SECRET.search(path) and not _exists(path):
        raise FileNotFoundError(
            errno.ENOENT,
            f"{name} takes the path of a file, and the value is none (not shown: it looks like a secret); pass a path",
        )
    return path


def _exists(path: str) -> bool:
    try:
        return os.path.exists(path)
    except ValueError:
        return False
