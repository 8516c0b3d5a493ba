"""Connections of the Python workers: one per process, set of servers and credentials, reused by later tasks."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from pyspark import TaskContext

import jetarrow.sync
from jetarrow.jetstream.errors import NotFoundError

from ._core import is_transient
from .options.connection import ConnectOptions, Endpoint

# Seconds for which started work waits for unavailable servers; as in js.read.
SERVERS_AWAY_TIMEOUT = 60.0
_RETRY_PAUSE = 0.25
_MOST_LETTERS = 100

_T = TypeVar("_T")

# Keyed by process id, because a worker may be forked from a process with open connections.
_clients: dict[tuple[int, Endpoint], jetarrow.sync.Client] = {}


def connect(options: ConnectOptions) -> jetarrow.sync.Client:
    """Open a connection, which the caller closes.

    Args:
        options: Servers and credentials. Secrets are resolved here.

    Returns:
        A connected client.

    Raises:
        NoServersError: No server responds within `options.timeout`.
        AuthorizationError: A server rejects the credentials.
        ValueError: A reference to a secret, or a context, cannot be resolved in this process, or is not allowed.
    """
    try:
        return jetarrow.sync.connect(**options.arguments())
    except FileNotFoundError as error:
        if options.context is None:
            raise
        raise ValueError(f"jetstream option 'context': {error}") from None


def shared_client(options: ConnectOptions) -> jetarrow.sync.Client:
    """Return this process's connection to these servers with these credentials, opened at its first use.

    Options that a task sets for itself do not separate connections: the domain or prefix of the API, the timeout and
    the name, which are those of the first use. The connection is closed when the process exits: Spark replaces a worker
    whose task has failed, and stops idle ones.

    Args:
        options: Servers and credentials.

    Returns:
        A connected client, which the caller must not close.

    Raises:
        Exception: As `connect`.
    """
    key = (os.getpid(), options.endpoint)
    client = _clients.get(key)
    if client is None or client.is_closed:
        client = _clients[key] = connect(_named(options))
    return client


def _named(options: ConnectOptions) -> ConnectOptions:
    """Return the options with the name of the application, unless the user has given a name."""
    context = TaskContext.get()
    if context is None or options.name is not None:
        return options
    # Without the query, because the tasks of all queries share the connection.
    parts = ["jetarrow-spark", context.getLocalProperty("spark.app.name")]
    name = re.sub(r"[^ -~]+", "_", " ".join(part for part in parts if part))
    return replace(options, name=name[:_MOST_LETTERS])


def jetstream(client: jetarrow.sync.Client, options: ConnectOptions) -> jetarrow.sync.JetStream:
    """Return the JetStream context of the options.

    Args:
        client: A connected client.
        options: The options, with domain or prefix.
    """
    return client.jetstream(**options.jetstream_arguments())


def shared_jetstream(options: ConnectOptions) -> jetarrow.sync.JetStream:
    """Return the JetStream context of `shared_client`.

    Args:
        options: Servers and credentials.

    Raises:
        Exception: As `connect`.
    """
    return jetstream(shared_client(options), options)


def no_such_stream(error: NotFoundError, stream: str, options: ConnectOptions, *, gone: bool = False) -> NotFoundError:
    """Return the same error with the stream and the servers in its text.

    Args:
        error: The server's error.
        stream: Name of the stream.
        options: The servers.
        gone: Whether it existed before. Default: False.
    """
    message = f"jetstream: there is no stream {stream!r} at {', '.join(options.servers)}{' any more' if gone else ''}"
    return NotFoundError(error.code, error.description, error.err_code, message=message)


def retry_transient(work: Callable[[], _T], *, timeout: float = SERVERS_AWAY_TIMEOUT) -> _T:
    """Call a function, and retry it while its error is transient.

    For requests of a running query: a restart of a server or the election of a leader is waited for.

    Args:
        work: The function; it must be idempotent.
        timeout: Seconds until its error is raised. Default: 60, as the option `reconnectTimeout` of reads.

    Returns:
        The result of `work`.

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
