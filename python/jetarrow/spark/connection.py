"""Connections of the Python workers: one per process and set of options, kept from task to task."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

import jetarrow.sync
from jetarrow.jetstream.errors import NotFoundError

from ._core import is_transient
from .options.connection import ConnectOptions

# How long work that has begun waits for servers that are away, in seconds; as long as js.read does.
SERVERS_AWAY_TIMEOUT = 60.0
_RETRY_PAUSE = 0.25

_T = TypeVar("_T")

# A worker is forked, perhaps from a process that has connected: a connection belongs to one process.
_clients: dict[tuple[int, ConnectOptions], jetarrow.sync.Client] = {}


def connect(options: ConnectOptions) -> jetarrow.sync.Client:
    """Open a connection, which the caller closes.

    Args:
        options: Where to, and as whom. Its secrets are looked up here.

    Returns:
        A connected client.

    Raises:
        NoServersError: No server answers within `options.timeout`.
        AuthorizationError: A server refuses the credentials.
        ValueError: A reference to a secret leads nowhere in this process.
    """
    return jetarrow.sync.connect(**options.arguments())


def shared_client(options: ConnectOptions) -> jetarrow.sync.Client:
    """Return this process's connection with these options, opened at its first use.

    It ends with the process: Spark replaces a worker whose task has failed, and drops idle ones.

    Args:
        options: Where to, and as whom.

    Returns:
        A connected client, which the caller leaves open.

    Raises:
        Exception: As `connect`.
    """
    key = (os.getpid(), options)
    client = _clients.get(key)
    if client is None or client.is_closed:
        client = _clients[key] = connect(options)
    return client


def jetstream(client: jetarrow.sync.Client, options: ConnectOptions) -> jetarrow.sync.JetStream:
    """Return the JetStream that the options name.

    Args:
        client: A connected client.
        options: Its options, with domain or prefix.
    """
    return client.jetstream(**options.jetstream_arguments())


def shared_jetstream(options: ConnectOptions) -> jetarrow.sync.JetStream:
    """Return the JetStream of `shared_client`.

    Args:
        options: Where to, and as whom.

    Raises:
        Exception: As `connect`.
    """
    return jetstream(shared_client(options), options)


def no_such_stream(error: NotFoundError, stream: str, options: ConnectOptions, *, gone: bool = False) -> NotFoundError:
    """Return the same error with the stream and the servers in its text.

    Args:
        error: The server's answer.
        stream: Name of the stream.
        options: Where it was looked for.
        gone: Whether it was there before. Default: False.
    """
    message = f"jetstream: there is no stream {stream!r} at {', '.join(options.servers)}{' any more' if gone else ''}"
    return NotFoundError(error.code, error.description, error.err_code, message=message)


def retry_transient(work: Callable[[], _T], *, timeout: float = SERVERS_AWAY_TIMEOUT) -> _T:
    """Do the work, again and again while the servers do not answer.

    For work that a running query depends on: a server that restarts, or a stream without a leader, passes.

    Args:
        work: May be done twice.
        timeout: Seconds until its error is raised. Default: 60.

    Returns:
        What `work` returns.

    Raises:
        Exception: Any other error of `work`, at once.
    """
    until = time.monotonic() + timeout
    while True:
        try:
            return work()
        except Exception as error:
            if not is_transient(error) or time.monotonic() >= until:
                raise
            time.sleep(_RETRY_PAUSE)
