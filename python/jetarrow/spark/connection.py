"""Connections of the Python workers: one per process and set of options, kept from task to task."""

from __future__ import annotations

import os

import jetarrow.sync

from ._connect_options import ConnectOptions

# A worker is forked, perhaps from a process that has connected: a connection belongs to one process.
_clients: dict[tuple[int, ConnectOptions], jetarrow.sync.Client] = {}


def connect(options: ConnectOptions) -> jetarrow.sync.Client:
    """Open a connection of its own, which the caller closes.

    Parameters
    ----------
    options:
        Where to, and as whom. Its secrets are looked up here.

    Returns
    -------
    jetarrow.sync.Client
        Connected.

    Raises
    ------
    jetarrow.errors.NoServersError
        No server answers within `options.timeout`.
    jetarrow.errors.AuthorizationError
        A server refuses the credentials.
    ValueError
        A reference to a secret leads nowhere in this process.
    """
    return jetarrow.sync.connect(**options.arguments(), name="jetarrow-spark")


def shared(options: ConnectOptions) -> jetarrow.sync.Client:
    """Return this process's connection with these options, opened when it is first asked for.

    It ends with the process: Spark replaces a worker whose task has failed, and drops idle ones.

    Parameters
    ----------
    options:
        Where to, and as whom.

    Returns
    -------
    jetarrow.sync.Client
        Connected; not to be closed.

    Raises
    ------
    Exception
        As `connect`.
    """
    key = (os.getpid(), options)
    client = _clients.get(key)
    if client is None or client.is_closed:
        client = _clients[key] = connect(options)
    return client
