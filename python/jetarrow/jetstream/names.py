"""Names of streams and consumers."""

from __future__ import annotations

from jetarrow import _jetarrow
from jetarrow.core.arguments import text


def checked(what: str, name: str | None) -> str:
    """The name, which becomes one token of an API subject.

    Args:
        what: "stream" or "consumer", for the error.
        name: The name.

    Raises:
        TypeError: It is no str.
        ValueError: It is empty, or has white space, dots, wildcards or path separators (the server's own rule).
    """
    name = text(f"the {what}'s name", name or "")
    _jetarrow.check_name(what, name)
    return name
