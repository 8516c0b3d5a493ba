"""Connections of the Python workers: one per process and set of options, kept from task to task."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

import jetarrow.sync
from jetarrow.errors import NoRespondersError, NoServersError, TimeoutError
from jetarrow.js.errors import ServiceUnavailableError

from .options.connection import ConnectOptions

# How long work that has begun waits for a server that is away, in seconds; as long as js.read does.
PATIENCE = 60.0
_PAUSE = 0.25

_T = TypeVar("_T")

# A worker is forked, perhaps from a process that has connected: a connection belongs to one process.
_clients: dict[tuple[int, ConnectOptions], jetarrow.sync.Client] = {}


def connect(options: ConnectOptions) -> jetarrow.sync.Client:
    """Open a connection of its own, which the caller closes.

    Args:
        options: Where to, and as whom. Its secrets are looked up here.

    Returns:
        Connected.

    Raises:
        NoServersError: No server answers within `options.timeout`.
        AuthorizationError: A server refuses the credentials.
        ValueError: A reference to a secret leads nowhere in this process.
    """
    return jetarrow.sync.connect(**options.arguments(), name="jetarrow-spark")


def shared(options: ConnectOptions) -> jetarrow.sync.Client:
    """Return this process's connection with these options, opened when it is first asked for.

    It ends with the process: Spark replaces a worker whose task has failed, and drops idle ones.

    Args:
        options: Where to, and as whom.

    Returns:
        Connected; not to be closed.

    Raises:
        Exception: As `connect`.
    """
    key = (os.getpid(), options)
    client = _clients.get(key)
    if client is None or client.is_closed:
        client = _clients[key] = connect(options)
    return client


def patiently(work: Callable[[], _T], *, patience: float = PATIENCE) -> _T:
    """Do the work, again and again while the servers do not answer.

    For work that a running query depends on: a server that restarts, or a stream without a leader, passes.

    Args:
        work: May be done twice.
        patience: Seconds until its error is raised. Default: 60.

    Raises:
        Exception: Whatever else `work` raises, at once.
    """
    until = time.monotonic() + patience
    while True:
        try:
            return work()
        except (NoServersError, TimeoutError, NoRespondersError, ServiceUnavailableError):
            if time.monotonic() >= until:
                raise
            time.sleep(_PAUSE)
