"""Subjects of a pipe in its target: its positions and its dead letters. Without I/O."""

from __future__ import annotations

from collections.abc import Sequence

from jetarrow.jetstream.filter_check import subjects_collide
from jetarrow.jetstream.pipe_errors import PipeError

_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=")


def check_name(name: str) -> str:
    """Return the name of a pipe, which is a token of subjects and keys.

    Raises:
        ValueError: It has other characters.
    """
    if not name or not _NAME.issuperset(name):
        raise ValueError(f"the name of a pipe has letters, digits, `-`, `_` and `=` only, not {name!r}")
    return name


def default_subject(target: str, subjects: Sequence[str], token: str) -> str:
    """Return a subject of the target for messages of the pipe itself.

    It is the first subject of the target that has a wildcard, with the token in place of each wildcard.

    Args:
        target: Name of the target, for the error.
        subjects: Its subjects.
        token: The token, which names the pipe.

    Raises:
        PipeError: No subject of the target has a wildcard.
    """
    for subject in subjects:
        tokens = subject.split(".")
        if "*" in tokens or tokens[-1] == ">":
            return ".".join(token if one in ("*", ">") else one for one in tokens)
    given = ", ".join(subjects) or "none at all"
    raise PipeError(
        f"could not choose a subject for the positions of the pipe: stream {target!r} has no subject with a wildcard"
        f" ({given}); add one such as 'pipes.>' and give position_subject='pipes.{token}'"
    )


def check_subject_of(target: str, subjects: Sequence[str], subject: str, option: str) -> None:
    """Check a subject that the user gave.

    Args:
        target: Name of the target.
        subjects: Its subjects.
        subject: The subject.
        option: The option that has it.

    Raises:
        PipeError: The target does not store it.
    """
    if not any(subjects_collide(one, subject) for one in subjects):
        raise PipeError(
            f"could not open the pipe: {option}={subject!r} is not a subject of stream {target!r}"
            f" ({', '.join(subjects)}); give one that it stores"
        )
