"""One of the two clients under the same names: a scenario is written once and runs with both."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import uuid
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

from ..tools import PATIENCE, until


class Face:
    """`nats` or `jetarrow`, with what the scenarios need of it."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url
        self.nats = importlib.import_module(name)
        self.errors = self.load("errors")
        self.js_errors = self.load("js.errors")
        self.api = self.load("js.api")
        self._open: list[Any] = []

    def load(self, path: str) -> ModuleType:
        """A module by its path below the client's name, such as "aio.client"."""
        return importlib.import_module(f"{self.name}.{path}")

    async def connect(self, servers: Any = None, **options: Any) -> Any:
        """A connection, closed at the end of the test."""
        nc = await self.nats.connect(self.url if servers is None else servers, **options)
        self._open.append(nc)
        return nc

    async def close(self) -> None:
        for nc in self._open:
            # nats-py cannot close a connection that is away at the moment.
            with contextlib.suppress(*(OSError,) if self.name == "nats" else ()):
                await nc.close()

    def kind(self, error: BaseException) -> str:
        """The class of an error, without the client's name: "errors.TimeoutError", "ValueError"."""
        kind = type(error)
        home = kind.__module__.removeprefix(self.name + ".")
        return kind.__qualname__ if home in ("builtins", "asyncio.exceptions") else f"{home}.{kind.__qualname__}"

    async def failure(self, call: Awaitable[object] | Callable[[], Awaitable[object]]) -> str:
        """What class of error an awaitable, or a call that gives one, ends in."""
        try:
            await asyncio.wait_for(call() if callable(call) else call, PATIENCE)
        except asyncio.CancelledError:
            return "CancelledError"
        except Exception as error:
            return self.kind(error)
        return "nothing"

    async def nothing_comes(self, call: Awaitable[object]) -> bool:
        """Whether it ends in a TimeoutError, or one of its subclasses: which one, depends on what the server said."""
        return isinstance(await self.raised(call), self.late)

    @property
    def late(self) -> type[Exception]:
        """What a call raises that took too long: nats-py lets asyncio's own out now and then, its base."""
        late: type[Exception] = asyncio.TimeoutError if self.name == "nats" else self.errors.TimeoutError
        return late

    async def raised(self, awaitable: Awaitable[object]) -> Exception:
        """The error that an awaitable ends in."""
        try:
            result = await asyncio.wait_for(awaitable, PATIENCE)
        except Exception as error:
            return error
        raise AssertionError(f"no error, but {result!r}")


class Collector:
    """A callback that keeps what it is given, and waits for a number of them."""

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
        """A callback without arguments that leaves its name."""

        async def collect() -> None:
            self.add(name)

        return collect

    @property
    def data(self) -> list[bytes]:
        return [msg.data for msg in self.all]

    async def wait(self, count: int, patience: float = PATIENCE) -> list[Any]:
        """Everything so far, once there are `count`."""
        async with asyncio.timeout(patience):
            while len(self.all) < count:
                self._more.clear()
                await self._more.wait()
        return self.all


def subject() -> str:
    """A subject that nobody else uses."""
    return f"s{uuid.uuid4().hex[:12]}"


async def arrived(sub: Any, count: int) -> None:
    """Waits until so many messages have come for a subscription, taken or not."""
    await until(lambda: sub.delivered >= count)


async def asked(sub: Any, count: int) -> None:
    """Waits until this many requests lie at the server."""

    async def there() -> bool:
        return bool((await sub.consumer_info()).num_waiting == count)

    await until(there)


async def make_stream(js: Any, **config: Any) -> str:
    """A new stream in memory that takes the subjects `<its name>.>`."""
    name = subject().upper()
    await js.add_stream(**{"name": name, "subjects": [f"{name}.>"], "storage": "memory", **config})
    return name


async def spread(js: Any, stream: str, count: int) -> None:
    """Publishes the numbers from 0, to `<stream>.<number modulo 3>`."""
    for number in range(count):
        await js.publish(f"{stream}.{number % 3}", b"%d" % number)


async def received(nc: Any, data: bytes = b"x", **more: Any) -> Any:
    """A message that was published with these arguments, as it comes back."""
    sub = await nc.subscribe(where := subject())
    await nc.publish(where, data, **more)
    return await sub.next_msg(5)
