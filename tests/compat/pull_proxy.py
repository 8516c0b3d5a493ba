"""A proxy that loses pull requests, and the server's data behind a heartbeat."""

from __future__ import annotations

import asyncio
import re

from ..survive.proxy import Proxy

# A pull request that waits with heartbeats; both clients write a command as a whole.
WAITING = re.compile(rb'PUB \S+\.CONSUMER\.MSG\.NEXT\.[^\r]+\r\n\{[^}\r]*"idle_heartbeat"[^}\r]*\}\r\n')
HEARTBEAT = b"NATS/1.0 100"


class PullProxy(Proxy):
    """Loses the next waiting pull request if `loses` is set, and all data after a heartbeat if `deafens` is set."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.loses = self.deafens = False
        self.lost = asyncio.Event()

    def from_client(self, data: bytes) -> bytes:
        if self.loses and (found := WAITING.search(data)):
            self.loses = False
            self.lost.set()
            return data[: found.start()] + data[found.end() :]
        return data

    def from_server(self, data: bytes) -> bytes:
        if self.deafens and HEARTBEAT in data:
            # This heartbeat is forwarded; the next data is not.
            asyncio.get_running_loop().call_soon(setattr, self, "deaf", True)
        return data
