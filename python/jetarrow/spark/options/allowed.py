"""Which references to secrets are followed: what the operator allows in the environment of Spark's Python processes.

On a server that many share (Spark Connect, SQL) anybody may set options, servers included: a reference that is followed
anywhere would send any file and variable of the workers to any address.
"""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase

DIRS = "JETARROW_SECRET_DIRS"
NAMES = "JETARROW_SECRET_ENV"
CONTEXTS = "JETARROW_SECRET_CONTEXTS"
_DEFAULT_NAMES = "NATS_*,JETARROW_*"
_WHERE = "in the environment of the driver and, as spark.executorEnv.{0}, of the executors"


def check_variable(option: str, name: str) -> None:
    """Check that a variable may be looked at.

    Args:
        option: Name of the option that refers to it.
        name: The variable.

    Raises:
        ValueError: No pattern in `JETARROW_SECRET_ENV` (default `NATS_*,JETARROW_*`) matches.
    """
    patterns = os.environ.get(NAMES, _DEFAULT_NAMES)
    if not any(fnmatchcase(name, pattern.strip()) for pattern in patterns.split(",")):
        raise _refused(option, f"env:{name}", NAMES, f"allows {patterns or 'none'}", f"{name} or a pattern for it")


def check_file(option: str, path: str) -> None:
    """Check that a file may be read, links followed.

    Args:
        option: Name of the option that refers to it.
        path: Its path.

    Raises:
        ValueError: It is in none of the directories of `JETARROW_SECRET_DIRS` (default none).
    """
    dirs = os.environ.get(DIRS, "")
    real = os.path.realpath(path)
    inside = (real.startswith(os.path.join(os.path.realpath(one), "")) for one in dirs.split(os.pathsep) if one)
    if not any(inside):
        said = f"allows {dirs}" if dirs else "is not set"
        raise _refused(option, f"file {path!r}", DIRS, said, "the directory of the secrets, such as /run/secrets")


def check_path(option: str, path: str) -> None:
    """Check a plain path to keys: it is bound to the operator's directories once there are any.

    Nothing of such a file is sent but a JWT, and the server's nonce signed with the key.

    Args:
        option: Name of the option.
        path: Its value.

    Raises:
        ValueError: As `check_file`.
    """
    if os.environ.get(DIRS):
        check_file(option, path)


def check_context(name: str) -> None:
    """Check that a context of the `nats` tool may be used: it holds credentials.

    Args:
        name: The context.

    Raises:
        ValueError: No pattern in `JETARROW_SECRET_CONTEXTS` (default none) matches.
    """
    patterns = os.environ.get(CONTEXTS, "")
    if not any(fnmatchcase(name, pattern.strip()) for pattern in patterns.split(",")):
        said = f"allows {patterns}" if patterns else "is not set"
        raise _refused("context", f"context {name!r}", CONTEXTS, said, f"{name} or a pattern for it")


def check_spark_file(option: str, name: str) -> None:
    """Check that a name stays among the files that were given to `addFile`.

    Args:
        option: Name of the option that refers to it.
        name: The file's name.

    Raises:
        ValueError: It is absolute, or has `..` in it.
    """
    if os.path.isabs(name) or ".." in re.split(r"[/\\]", name):
        raise ValueError(f"jetstream option '{option}': 'sparkfile:{name}' is not the name of a file given to addFile")


def _refused(option: str, what: str, variable: str, said: str, value: str) -> ValueError:
    return ValueError(
        f"jetstream option '{option}': {what} is not a secret that may be used here: {variable} {said}; the operator"
        f" of this Spark sets {variable} to {value}, {_WHERE.format(variable)}"
    )
