"""Names of streams and consumers."""

from __future__ import annotations


def checked(what: str, name: str | None) -> str:
    """The name, which becomes one token of an API subject.

    Args:
        what: "stream" or "consumer", for the error.
        name: The name.

    Raises:
        ValueError: It is empty, or has white space, dots, wildcards or path separators (the server's own rule).
    """
    if not name or any(c in ".*>/\\" or c.isspace() or not c.isprintable() for c in name):
        raise ValueError(
            f"{what} name {name!r} is not valid: no white space, dots, wildcards or path separators, "
            "and at least one character"
        )
    return name
