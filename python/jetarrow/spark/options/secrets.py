"""Secrets by reference: an option has the location of a secret, and each worker resolves it when it connects.

Options are not confidential: Spark Connect's user interface and event log show every value. References may be shown.
The operator configures which ones are allowed (`allowed`).
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, field

from .allowed import check_file, check_path, check_spark_file, check_variable

# Options whose value is the path of a file with credentials.
_KEY_FILES = ("credsFile", "nkeyFile", "tlsKeyFile")
_KINDS = ("env", "file", "sparkfile")
REFERENCES = "env:NAME, file:/path or sparkfile:NAME (of addFile)"

_warned: set[str] = set()


@dataclass(frozen=True)
class Secret:
    """The value of an option that is a secret, or a reference to one. `repr` omits it.

    Attributes:
        option: Name of the option.
        given: Its value.
    """

    option: str
    given: str = field(repr=False)

    @property
    def is_reference(self) -> bool:
        """Whether the value is `env:`, `file:` or `sparkfile:` with a name."""
        kind, _, name = self.given.partition(":")
        return kind in _KINDS and bool(name)

    def resolve(self) -> str:
        """Resolve the secret in this process; return a literal or a plain path unchanged.

        Returns:
            The secret without a trailing newline, which editors and `echo` write to files.

        Raises:
            ValueError: The reference cannot be resolved in this process, or is not allowed.
        """
        if not self.is_reference:
            if self.option in _KEY_FILES:
                check_path(self.option, self.given)
            return self.given
        kind, _, name = self.given.partition(":")
        text = _from_environment(self.option, name) if kind == "env" else _from_file(self.option, kind, name)
        text = text.removesuffix("\n").removesuffix("\r")
        if not text:
            raise ValueError(f"jetstream option '{self.option}': the secret at {self.given!r} is empty")
        return text

    def path(self) -> str | None:
        """Return the file of the secret, of a reference or of an option with a path; else None.

        Raises:
            ValueError: The file is not allowed.
        """
        if not self.is_reference:
            return self.resolve() if self.option.endswith("File") else None
        kind, _, name = self.given.partition(":")
        return None if kind == "env" else _path(self.option, kind, name)


def warn_of_literals(secrets: tuple[Secret, ...]) -> None:
    """Warn once per process and option if a secret was given as a literal.

    Args:
        secrets: The secrets of options that accept a literal.
    """
    names = sorted({secret.option for secret in secrets if not secret.is_reference} - _warned)
    if names:
        _warned.update(names)
        text = ", ".join(f"'{name}'" for name in names)
        warnings.warn(
            f"jetstream: option {text} has a secret as a literal, and Spark Connect shows options in its user"
            f" interface and event log; use a reference: {REFERENCES}",
            stacklevel=3,
        )


def _from_environment(option: str, name: str) -> str:
    check_variable(option, name)
    text = os.environ.get(name)
    if text is None:
        raise ValueError(f"jetstream option '{option}': environment variable {name!r} is not set on this worker")
    return text


def _from_file(option: str, kind: str, name: str) -> str:
    path = _path(option, kind, name)
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ValueError(f"jetstream option '{option}': {kind} {name!r} cannot be read here: {cause}") from None


def _path(option: str, kind: str, name: str) -> str:
    if kind == "sparkfile":
        from pyspark import SparkFiles

        check_spark_file(option, name)
        return SparkFiles.get(name)
    check_file(option, name)
    return name
