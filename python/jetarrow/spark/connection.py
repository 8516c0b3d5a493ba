"""Connections of the Python workers: one per process and server set, kept from task to task."""

from __future__ import annotations

import os

import jetarrow.sync

CONNECT_TIMEOUT = 2.0  # seconds

# A worker is forked, perhaps from a process that has connected: a connection belongs to one process.
_clients: dict[tuple[int, tuple[str, ...]], jetarrow.sync.Client] = {}


def connect(servers: tuple[str, ...]) -> jetarrow.sync.Client:
    """Open a connection of its own, which the caller closes.

    Parameters
    ----------
    servers:
        Addresses, tried until one answers.

    Returns
    -------
    jetarrow.sync.Client
        Connected.

    Raises
    ------
    jetarrow.errors.NoServersError
        No server answers within 2 seconds.
    """
    return jetarrow.sync.connect(list(servers), connect_timeout=CONNECT_TIMEOUT, name="jetarrow-spark")


def shared(servers: tuple[str, ...]) -> jetarrow.sync.Client:
    """Return this process's connection to these servers, opened when it is first asked for.

    It ends with the process: Spark replaces a worker whose task has failed, and drops idle ones.

    Parameters
    ----------
    servers:
        Addresses, tried until one answers.

    Returns
    -------
    jetarrow.sync.Client
        Connected; not to be closed.

    Raises
    ------
    jetarrow.errors.NoServersError
        No server answers within 2 seconds.
    """
    key = (os.getpid(), servers)
    client = _clients.get(key)
    if client is None or client.is_closed:
        client = _clients[key] = connect(servers)
    return client
