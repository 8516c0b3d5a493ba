"""Secrets by reference: an option says where a secret is, and each worker looks it up when it connects.

Options are shown in unexpected places: Spark Connect's user interface and event log show every value. A reference
may be shown. Which ones are followed is the operator's to say (`allowed`).
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, field

from .allowed import check_file, check_path, check_spark_file, check_variable

# Options whose value is the path of what says who we are.
_KEY_FILES = ("credsFile", "nkeyFile", "tlsKeyFile")
_KINDS = ("env", "file", "sparkfile")
REFERENCES = "env:NAME, file:/path or sparkfile:NAME (of addFile)"

_warned: set[str] = set()


@dataclass(frozen=True)
class Secret:
    """The value of an option that is a secret, or a reference to one. Never shown, also not by `repr`.

    Attributes:
        option: Name of the option.
        given: Its value.
    """

    option: str
    given: str = field(repr=False)

    @property
    def is_reference(self) -> bool:
        """Whether the value is `env:`, `file:` or `sparkfile:` with something after it."""
        kind, _, name = self.given.partition(":")
        return kind in _KINDS and bool(name)

    def resolve(self) -> str:
        """Look the secret up, here and now; a literal, or a plain path, is itself.

        Returns:
            Without one trailing newline, which editors and `echo` leave in files.

        Raises:
            ValueError: There is nothing under this reference, in this process, or it is not allowed.
        """
        if not self.is_reference:
            if self.option in _KEY_FILES:
                check_path(self.option, self.given)
            return self.given
        kind, _, name = self.given.partition(":")
        text = _from_environment(self.option, name) if kind == "env" else _from_file(self.option, kind, name)
        text = text.removesuffix("\n").removesuffix("\r")
        if not text:
            raise ValueError(f"jetstream option '{self.option}': what {self.given!r} refers to is empty")
        return text

    def path(self) -> str | None:
        """Return the file that it is in, by a reference or as the value of an option that takes a path; else None.

        Raises:
            ValueError: It is not allowed.
        """
        if not self.is_reference:
            return self.resolve() if self.option.endswith("File") else None
        kind, _, name = self.given.partition(":")
        return None if kind == "env" else _path(self.option, kind, name)


def warn_of_literals(secrets: tuple[Secret, ...]) -> None:
    """Warn, once per process and option, where a secret itself was given.

    Args:
        secrets: Those of options that take a literal.
    """
    names = sorted({secret.option for secret in secrets if not secret.is_reference} - _warned)
    if names:
        _warned.update(names)
        text = ", ".join(f"'{name}'" for name in names)
        warnings.warn(
            f"jetstream: the secret itself was given as option {text}; Spark Connect shows options in its user"
            f" interface and event log. Better say where it is: {REFERENCES}",
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
