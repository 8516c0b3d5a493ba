"""Access to either client under the same names, so that a scenario is written once and runs with both."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import uuid
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

import nats.js.errors

from ..tools import PATIENCE, until


class Face:
    """`nats` or `jetarrow`, with helpers for the scenarios."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url
        self.nats = importlib.import_module(name)
        self.errors = self.load("errors")
        self.js_errors = self.load("js.errors")
        self.api = self.load("js.api")
        self._open: list[Any] = []

    def load(self, path: str) -> ModuleType:
        """Import a module by its path below the client's name, such as "aio.client"."""
        return importlib.import_module(f"{self.name}.{path}")

    async def connect(self, servers: Any = None, **options: Any) -> Any:
        """Return a connection that is closed at the end of the test."""
        # A busy machine may need more than the default of 2 s.
        options.setdefault("connect_timeout", PATIENCE)
        nc = await self.nats.connect(self.url if servers is None else servers, **options)
        self._open.append(nc)
        return nc

    async def close(self) -> None:
        for nc in self._open:
            if self.name == "nats":
                # Its reconnection may miss that it is cancelled, and ends without another server.
                nc._server_pool.clear()
            # nats-py cannot close a disconnected connection.
            with contextlib.suppress(*(OSError,) if self.name == "nats" else ()):
                await nc.close()

    def kind(self, error: BaseException) -> str:
        """Return the class of an error, without the client's name: "errors.TimeoutError", "ValueError".

        jetarrow has subclasses for error codes of the server. They count as the class that `except` clauses written for
        nats-py name.
        """
        kind = type(error)
        if issubclass(kind, self.js_errors.APIError):
            kind = next(base for base in kind.__mro__ if hasattr(nats.js.errors, base.__name__))
        home = kind.__module__.removeprefix(self.name + ".")
        return kind.__qualname__ if home in ("builtins", "asyncio.exceptions") else f"{home}.{kind.__qualname__}"

    async def failure(self, call: Awaitable[object] | Callable[[], Awaitable[object]]) -> str:
        """Return the error class that an awaitable, or a call that returns one, raises, or "nothing"."""
        try:
            await asyncio.wait_for(call() if callable(call) else call, PATIENCE)
        except asyncio.CancelledError:
            return "CancelledError"
        except Exception as error:
            return self.kind(error)
        return "nothing"

    async def nothing_comes(self, call: Awaitable[object]) -> bool:
        """Return whether the call raises a TimeoutError or a subclass; the class depends on the server's response."""
        return isinstance(await self.raised(call), self.late)

    @property
    def late(self) -> type[Exception]:
        """The class of timeouts; for nats-py the base class, asyncio's TimeoutError, which it sometimes raises."""
        late: type[Exception] = asyncio.TimeoutError if self.name == "nats" else self.errors.TimeoutError
        return late

    async def raised(self, awaitable: Awaitable[object]) -> Exception:
        """Return the error that an awaitable raises."""
        try:
            result = await asyncio.wait_for(awaitable, PATIENCE)
        except Exception as error:
            return error
        raise AssertionError(f"no error, but {result!r}")


class Collector:
    """Stores the arguments of a callback, and waits for a number of them."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._more = asyncio.Event()

    def add(self, item: Any) -> None:
        self.all.append(item)
        self._more.set()

    @property
    def callback(self) -> Callable[[Any], Awaitable[None]]:
        async def collect(item: Any) -> None:
            self.add(item)

        return collect

    def named(self, name: str) -> Callable[[], Awaitable[None]]:
        """Return a callback without arguments that adds `name`."""

        async def collect() -> None:
            self.add(name)

        return collect

    @property
    def data(self) -> list[bytes]:
        return [msg.data for msg in self.all]

    async def wait(self, count: int, patience: float = PATIENCE) -> list[Any]:
        """Wait for `count` items, and return all items so far."""
        async with asyncio.timeout(patience):
            while len(self.all) < count:
                self._more.clear()
                await self._more.wait()
        return self.all


def subject() -> str:
    """Return a unique subject."""
    return f"s{uuid.uuid4().hex[:12]}"


async def arrived(sub: Any, count: int) -> None:
    """Wait until a subscription has received `count` messages, consumed or not."""
    await until(lambda: sub.delivered >= count)


async def asked(sub: Any, count: int) -> None:
    """Wait until the server has `count` pending pull requests."""

    async def there() -> bool:
        return bool((await sub.consumer_info()).num_waiting == count)

    await until(there)


async def make_stream(js: Any, **config: Any) -> str:
    """Create a stream in memory with the subjects `<its name>.>`, and return its name."""
    name = subject().upper()
    await js.add_stream(**{"name": name, "subjects": [f"{name}.>"], "storage": "memory", **config})
    return name


async def spread(js: Any, stream: str, count: int) -> None:
    """Publish the numbers from 0 to `<stream>.<number modulo 3>`."""
    for number in range(count):
        await js.publish(f"{stream}.{number % 3}", b"%d" % number)


async def received(nc: Any, data: bytes = b"x", **more: Any) -> Any:
    """Publish a message with these arguments, and return it as received."""
    sub = await nc.subscribe(where := subject())
    await nc.publish(where, data, **more)
    return await sub.next_msg(5)
