"""What becomes of a connection, in the log "jetarrow"."""

from __future__ import annotations

import logging
import time
import weakref
from typing import Any

_log = logging.getLogger("jetarrow.connection")
# Quiet until the program sets logging up: Python would print warnings that nobody takes on stderr.
_log.addHandler(logging.NullHandler())


class ConnectionLog:
    """Writes a connection's events to the log: breaks and errors as warnings, the rest as information.

    Args:
        session: Whose events.
    """

    def __init__(self, session: Any) -> None:
        self._session = weakref.ref(session)
        self._down_since: float | None = None
        # The error just before: what breaks or ends by itself has one.
        self._why: Exception | None = None

    def log_event(self, kind: str, error: Exception | None, *, has_callback: bool) -> None:
        """Writes one event.

        Args:
            kind: As `Notices` has it.
            error: Of an event of kind "error".
            has_callback: There is a callback for it; its errors are the callback's then.
        """
        why, self._why = self._why, error
        if error is not None:
            # Each attempt to come back fails alike.
            again = self._down_since is not None and str(error) == str(why)
            if not has_callback:
                log_error(error, logging.DEBUG if again else logging.WARNING)
        elif kind == "disconnected":
            self._down_since = time.monotonic()
            _log.log(_level(why), "nats: disconnected")
        elif kind == "reconnected":
            session = self._session()
            connection = session and session.last_connection
            url = connection and connection.connected_url
            since, self._down_since = self._down_since, None
            _log.info("nats: reconnected to %s after %.1f s", url, time.monotonic() - (since or time.monotonic()))
        elif kind == "closed":
            _log.log(_level(why), "nats: the connection is closed")
        elif kind == "lame_duck_mode":
            _log.warning("nats: the server is about to shut down (lame duck mode)")
        elif kind == "discovered_server":
            _log.info("nats: the server has announced others")


def _level(why: Exception | None) -> int:
    return logging.INFO if why is None else logging.WARNING


def log_error(error: Exception, level: int = logging.WARNING) -> None:
    """What happens to an error without a callback."""
    _log.log(level, "nats: encountered error: %s: %s", type(error).__name__, error)
