"""Requests of a worker, and the errors that it retries."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any

from jetarrow.core.errors import ConnectionClosedError, Error, TimeoutError
from jetarrow.jetstream.errors import FetchTimeoutError, NotFoundError
from jetarrow.workers.core import Core
from jetarrow.workers.ledger import Decision
from jetarrow.workers.settlement import log

# First and longest delay in seconds after a failed request.
_FIRST_DELAY, _LAST_DELAY = 0.1, 5.0
# Seconds for which a missing consumer may be one that the server is still recovering.
_RECOVERY = 3.0


class Puller:
    """Makes the requests of a worker.

    Args:
        core: The worker.
        wait: Seconds that one request waits for messages.
        sleep: Waits, at most until the stop.
    """

    def __init__(self, core: Core, wait: float, sleep: Callable[[float], Coroutine[Any, Any, None]]) -> None:
        self._core, self._wait, self._sleep = core, wait, sleep
        self._is_too_large = False
        self._delay = _FIRST_DELAY
        self._missing: float | None = None
        # Time of the last sign of life, and the error of the last request; None after a success.
        self.alive = time.monotonic()
        self.problem: str | None = None

    async def pull(self, room: int) -> tuple[Decision, ...]:
        """Makes one request, and adds its messages to the ledger.

        Raises:
            NotFoundError: The consumer or the stream was deleted.
            ConnectionClosedError: The client is closed.
            Error: The group was deleted, or changed so that its members end.
        """
        self.alive = time.monotonic()
        try:
            return await self._request(room)
        except ConnectionClosedError:
            raise
        except FetchTimeoutError:
            # No message, or no connection for a while, which the health check reports by itself.
            if self._core.session.is_closed:
                raise ConnectionClosedError from None
            self._succeeded()
        except ValueError:
            # The next message is larger than the bytes that are left: request it alone.
            if self._is_too_large:
                raise
            self._is_too_large = True
            return ()
        except NotFoundError as error:
            now = time.monotonic()
            self._missing = self._missing or now
            if now - self._missing >= _RECOVERY:
                raise
            await self._failed(error)
        except (Error, TimeoutError) as error:
            if self._core.sub._closed:
                # It does not pass: the group has ended its member, for example.
                raise
            await self._failed(error)
        return ()

    async def _request(self, room: int) -> tuple[Decision, ...]:
        core, alone = self._core, self._is_too_large
        decisions = await core.request(
            1 if alone else room,
            1 if alone else core.plan.rows,
            wait=self._wait,
            most_bytes=None if alone else core.bytes_left(),
        )
        self._succeeded()
        return decisions

    def _succeeded(self) -> None:
        self._is_too_large = False
        self._delay, self._missing, self.problem = _FIRST_DELAY, None, None

    async def _failed(self, error: Exception) -> None:
        core = self._core
        if self.problem is None:
            log.warning("a request of consumer %r failed, and is repeated: %s", core.plan.durable, error)
        self.problem = str(error)
        delay, self._delay = self._delay, min(self._delay * 2, _LAST_DELAY)
        await self._sleep(delay)
