"""References to secrets that the operator allows, by the environment of Spark's Python processes.

On a shared server (Spark Connect, SQL) any user may set options, including servers. Unrestricted references would send
any file and variable of the workers to any address.
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
    """Check that an environment variable may be read.

    Args:
        option: Name of the option that refers to it.
        name: The variable.

    Raises:
        ValueError: No pattern in `JETARROW_SECRET_ENV` (default `NATS_*,JETARROW_*`) matches.
    """
    patterns = os.environ.get(NAMES, _DEFAULT_NAMES)
    if not any(fnmatchcase(name, pattern.strip()) for pattern in patterns.split(",")):
        raise _not_allowed(option, f"env:{name}", NAMES, f"allows {patterns or 'none'}", f"{name} or a pattern for it")


def check_file(option: str, path: str) -> None:
    """Check that a file may be read, after resolving links.

    Args:
        option: Name of the option that refers to it.
        path: Its path.

    Raises:
        ValueError: The file is not in a directory of `JETARROW_SECRET_DIRS` (default none).
    """
    dirs = os.environ.get(DIRS, "")
    real = os.path.realpath(path)
    inside = (real.startswith(os.path.join(os.path.realpath(one), "")) for one in dirs.split(os.pathsep) if one)
    if not any(inside):
        rule = f"allows {dirs}" if dirs else "is not set"
        raise _not_allowed(option, f"file {path!r}", DIRS, rule, "the directory of the secrets, such as /run/secrets")


def check_path(option: str, path: str) -> None:
    """Check a plain path to keys: it must be in the operator's directories if there are any.

    Only a JWT of such a file is sent, and the server's nonce signed with the key.

    Args:
        option: Name of the option.
        path: Its value.

    Raises:
        ValueError: As `check_file`.
    """
    if os.environ.get(DIRS):
        check_file(option, path)


def check_context(name: str) -> None:
    """Check that a context of the `nats` tool, which has credentials, may be used.

    Args:
        name: The context.

    Raises:
        ValueError: No pattern in `JETARROW_SECRET_CONTEXTS` (default none) matches.
    """
    patterns = os.environ.get(CONTEXTS, "")
    if not any(fnmatchcase(name, pattern.strip()) for pattern in patterns.split(",")):
        rule = f"allows {patterns}" if patterns else "is not set"
        raise _not_allowed("context", f"context {name!r}", CONTEXTS, rule, f"{name} or a pattern for it")


def check_spark_file(option: str, name: str) -> None:
    """Check that a name refers to a file that was given to `addFile`.

    Args:
        option: Name of the option that refers to it.
        name: The file's name.

    Raises:
        ValueError: The name is absolute, or contains `..`.
    """
    if os.path.isabs(name) or ".." in re.split(r"[/\\]", name):
        raise ValueError(f"jetstream option '{option}': 'sparkfile:{name}' is not the name of a file given to addFile")


def _not_allowed(option: str, reference: str, variable: str, rule: str, value: str) -> ValueError:
    return ValueError(
        f"jetstream option '{option}': {reference} is not allowed here: {variable} {rule}; the operator can"
        f" set {variable} to {value}, {_WHERE.format(variable)}"
    )
