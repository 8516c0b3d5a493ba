"""Connections of the Python workers: one per process and set of options, kept from task to task."""

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
from .options.connection import ConnectOptions

# How long work that has begun waits for servers that are away, in seconds; as long as js.read does.
SERVERS_AWAY_TIMEOUT = 60.0
_RETRY_PAUSE = 0.25
# Queries that have connections of their own in one process, each with its name.
_MOST_NAMES = 4
_MOST_LETTERS = 100

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
        ValueError: A reference to a secret, or a context, leads nowhere in this process, or is not allowed.
    """
    try:
        return jetarrow.sync.connect(**options.arguments())
    except FileNotFoundError as error:
        if options.context is None:
            raise
        raise ValueError(f"jetstream option 'context': {error}") from None


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
    options = _named(options)
    key = (os.getpid(), options)
    client = _clients.pop(key, None)
    if client is None or client.is_closed:
        _close_oldest(key)
        client = connect(options)
    # The last one is the one that was used last.
    _clients[key] = client
    return client


def _named(options: ConnectOptions) -> ConnectOptions:
    """The options with a name that says which application and query a task is of, where the user has given none."""
    context = TaskContext.get()
    if context is None or options.name is not None:
        return options
    about, query = context.getLocalProperty("spark.job.description"), context.getLocalProperty("sql.streaming.queryId")
    if query is not None and about is not None and f"id = {query}" in about:
        # A query's description begins with the name that the user has given it.
        query = about.partition("\n")[0].strip() or query
    parts = ["jetarrow-spark", context.getLocalProperty("spark.app.name"), query]
    name = re.sub(r"[^ -~]+", "_", " ".join(part for part in parts if part))
    return replace(options, name=name[:_MOST_LETTERS])


def _close_oldest(key: tuple[int, ConnectOptions]) -> None:
    """Let go of a connection that differs in its name only, where there are many: the one that was not used longest."""
    process, options = key
    if TaskContext.get() is None or options.name is None:
        return
    alike = [one for one in _clients if one[0] == process and replace(one[1], name=options.name) == options]
    for one in alike[: 1 - _MOST_NAMES]:
        _clients.pop(one).close()


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
        timeout: Seconds until its error is raised. Default: 60, as the option `reconnectTimeout` of reads.

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
