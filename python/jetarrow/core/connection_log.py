"""Log records of a connection's events, in the logger "jetarrow.connection"."""

from __future__ import annotations

import logging
import time
import weakref
from typing import Any

_log = logging.getLogger("jetarrow.connection")
# Without a handler, Python prints warnings on stderr; the program decides with its logging configuration.
_log.addHandler(logging.NullHandler())


class ConnectionLog:
    """Logs a connection's events: disconnects and errors as warnings, others at level INFO.

    Args:
        session: The session of the connection; held weakly.
    """

    def __init__(self, session: Any) -> None:
        self._session = weakref.ref(session)
        self._down_since: float | None = None
        # The preceding error: the cause of a disconnect or of the end, if there is one.
        self._cause: Exception | None = None

    def log_event(self, kind: str, error: Exception | None, *, has_callback: bool) -> None:
        """Logs one event.

        Args:
            kind: The kind of the native notice.
            error: The error of an event of kind "error".
            has_callback: A callback handles the event; its errors are not logged.
        """
        cause, self._cause = self._cause, error
        if error is not None:
            # Repeated reconnect attempts fail with the same error.
            again = self._down_since is not None and str(error) == str(cause)
            if not has_callback:
                log_error(error, logging.DEBUG if again else logging.WARNING)
        elif kind == "disconnected":
            self._down_since = time.monotonic()
            _log.log(_level(cause), "nats: disconnected")
        elif kind == "reconnected":
            session = self._session()
            connection = session and session.last_connection
            url = connection and connection.connected_url
            since, self._down_since = self._down_since, None
            _log.info("nats: reconnected to %s after %.1f s", url, time.monotonic() - (since or time.monotonic()))
        elif kind == "closed":
            _log.log(_level(cause), "nats: connection closed")
        elif kind == "lame_duck_mode":
            _log.warning("nats: the server announced its shutdown (lame duck mode)")
        elif kind == "discovered_server":
            _log.info("nats: the server announced other servers")


def _level(cause: Exception | None) -> int:
    return logging.INFO if cause is None else logging.WARNING


def log_error(error: Exception, level: int = logging.WARNING) -> None:
    """Logs an error that no callback handles."""
    _log.log(level, "nats: encountered error: %s: %s", type(error).__name__, error)
