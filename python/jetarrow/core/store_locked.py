"""StoreLockedError: another nats-server uses the store directory."""

from __future__ import annotations

from jetarrow.core.error_links import add_link
from jetarrow.core.errors import Error


class StoreLockedError(Error):
    """Another nats-server uses the store directory of a `NatsServer`.

    Args:
        message: The error text. Default: a general text.
        path: The store directory. Default: None, not known.
        pid: The other server's process. Default: None, not known.
        owner_pid: The process that started it. Default: None, not known.
        host: Host name of the machine that it runs on. Default: None, not known.
        began: Its start time, as ISO 8601 text in UTC. Default: None, not known.
    """

    _default = "the store directory is in use by another nats-server: stop that server, or use another directory"

    def __init__(
        self,
        message: str | None = None,
        *,
        path: str | None = None,
        pid: int | None = None,
        owner_pid: int | None = None,
        host: str | None = None,
        began: str | None = None,
    ) -> None:
        self.path = path
        self.pid = pid
        self.owner_pid = owner_pid
        self.host = host
        self.began = began
        self._set_message(message)


# Tracebacks and pickles use the public module name.
StoreLockedError.__module__ = "jetarrow.errors"
add_link(StoreLockedError)
