"""The modules, the server and the record of one scenario."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import traceback
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from jetarrow.server import NatsServer

from .recorder import Recorder

FACES = {"reference": "nats", "jetarrow": "jetarrow.nats"}
# Timeout in seconds for conditions that are certain to become true.
PATIENCE = 30.0


class Case:
    """One run of a scenario.

    Attributes:
        client: The module `nats.client` of the face.
        jetstream: Its module `nats.jetstream`, imported when a scenario needs it.
        key_value: Its module `nats.key_value`, in the same way.
        url: Address of the server that all scenarios of the module share.
        name: A name that no other run has, for streams, buckets and subjects.
        files: Folder with certificates, keys and JWTs, written by `material.py`.
        notes: The recorded values.
    """

    def __init__(self, face: str, url: str, files: Path) -> None:
        self.face, self.url, self.files = face, url, files
        self.name = f"S{uuid.uuid4().hex[:12]}"
        self.notes: dict[str, Any] = {}
        self._recorder = Recorder(self.name)
        self._stack = contextlib.AsyncExitStack()

    @property
    def client(self) -> Any:
        return self.module("client")

    @property
    def jetstream(self) -> Any:
        return self.module("jetstream")

    @property
    def key_value(self) -> Any:
        return self.module("key_value")

    def module(self, path: str) -> Any:
        """Import a module by its path below `nats`, such as "jetstream.errors"."""
        return importlib.import_module(f"{FACES[self.face]}.{path}")

    def note(self, key: str, value: Any) -> None:
        """Record a value as it is now; a key is used once."""
        assert key not in self.notes, f"{key} is noted twice"
        self.notes[key] = self._recorder.record(value)

    async def call(self, key: str, call: Awaitable[Any] | Callable[[], Any]) -> Any:
        """Record the result of an awaitable or of a call, or the exception it raises, and return that."""
        try:
            result = call() if callable(call) else await asyncio.wait_for(call, PATIENCE)
        except Exception as error:
            result = error
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            self.note(key, "CancelledError")
            return error
        self.note(key, result)
        return result

    async def connect(self, url: str | None = None, **options: Any) -> Any:
        """Return a connection, which is closed at the end of the scenario."""
        client = await self.client.connect(self.url if url is None else url, **options)
        self._stack.push_async_callback(client.close)
        return client

    async def context(self, **options: Any) -> Any:
        """Return the JetStream context of a new connection."""
        return self.jetstream.new(await self.connect(), **options)

    def server(self, config: str | None = None, jetstream: bool = False) -> NatsServer:
        """Return a running server of the scenario's own."""
        return self._stack.enter_context(NatsServer(config=config, jetstream=jetstream))

    async def run(self, scenario: Callable[[Case], Awaitable[None]]) -> dict[str, Any]:
        """Run the scenario, and return its notes and the traceback of an exception that it raises."""
        error = None
        try:
            async with asyncio.timeout(2 * PATIENCE):
                async with self._stack:
                    await scenario(self)
        except Exception:
            error = traceback.format_exc()
        return {"notes": self.notes, "error": error}


async def until(condition: Callable[[], Any]) -> None:
    """Poll the condition, or the awaitable it returns, until it holds."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = condition()
            if await found if hasattr(found, "__await__") else found:
                return
            await asyncio.sleep(0.005)


class Calls:
    """Stores the arguments of a callback, and waits for a number of calls."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._more = asyncio.Event()

    def __call__(self, *args: Any) -> None:
        self.all.append(args[0] if len(args) == 1 else args)
        self._more.set()

    async def wait(self, count: int) -> list[Any]:
        """Wait for `count` calls, and return their arguments."""
        async with asyncio.timeout(PATIENCE):
            while len(self.all) < count:
                self._more.clear()
                await self._more.wait()
        return self.all[:count]
