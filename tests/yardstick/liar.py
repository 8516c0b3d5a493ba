"""A server that sends invalid data, and its client: `python -m tests.yardstick.liar <url>` runs the client.

A lie is the data sent instead of INFO, or after a PING, SUB or PUB of the client.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import jetarrow
from jetarrow import errors

from ..listener import Listener
from ..survive.tools import rss

# Timeout in seconds of every call of the client.
TIMEOUT = 1.0
INFO = b'INFO {"server_id":"L","version":"2.15.1","headers":true,"jetstream":true,"max_payload":1048576,"proto":1}\r\n'
ENDLESS = 1 << 31


@dataclass(frozen=True)
class Lie:
    name: str
    text: bytes
    # info: the text replaces INFO; ping, sub: it follows that verb; pub: it is the payload of the answer.
    at: str
    # Endless bytes follow the text.
    endless: bool = False
    # MiB that a client may grow by. It buffers at most one message of maximum size: 64 MiB, and a margin.
    most: float = 32.0


GATHERED = 32.0 + 65.0
LIES = [
    Lie("no INFO but noise", b"\x00\xff\x13 hello\r\n", "info"),
    Lie("HTTP instead of INFO", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "info"),
    Lie("INFO that is no JSON", b"INFO {nonsense\r\n", "info"),
    Lie("INFO that is a list", b"INFO []\r\n", "info"),
    Lie("INFO with wrong types", b'INFO {"server_id":5,"max_payload":"x"}\r\n', "info"),
    Lie("INFO with a negative limit", INFO.replace(b"1048576", b"-5"), "info"),
    Lie("INFO that is not UTF-8", b'INFO {"server_id":"\xff\xfe"}\r\n', "info"),
    Lie("a line without end at connect", b"INFO " + b"x" * 4096, "info", True, GATHERED),
    Lie("nothing, ever", b"", "info"),
    Lie("-ERR at connect", b"-ERR 'Authorization Violation'\r\n", "ping"),
    Lie("-ERR without text", b"-ERR\r\n", "ping"),
    Lie("an unknown verb", b"NONSENSE 1 2 3\r\n", "ping"),
    Lie("a line without end", b"MSG " + b"x" * 4096, "sub", True, GATHERED),
    Lie("MSG of a length that is no number", b"MSG a 1 x\r\n", "sub"),
    Lie("MSG of a negative length", b"MSG a 1 -7\r\n\r\n", "sub"),
    Lie("MSG of a length near 2^64", b"MSG a 1 18446744073709551615\r\nx\r\n", "sub"),
    Lie("MSG of 99 TB", b"MSG a 1 99000000000000\r\n" + b"x" * 65_536, "sub", True, GATHERED),
    Lie("MSG with too few words", b"MSG a\r\n", "sub"),
    Lie("MSG to a subscription that is not there", b"MSG a 999 2\r\nhi\r\n", "sub"),
    Lie("HMSG with more headers than message", b"HMSG a 1 100 10\r\nNATS/1.0\r\n\r\n", "sub"),
    Lie("HMSG of another version", b"HMSG a 1 12 14\r\nNATS/9.9\r\n\r\nhi\r\n", "sub"),
    Lie("HMSG with headers that are not UTF-8", b"HMSG a 1 18 20\r\nNATS/1.0\r\nA: \xff\xfe\r\n\r\nhi\r\n", "sub"),
    Lie("an ack cut short", b'{"stream":"S","seq":', "pub"),
    Lie("an ack that is not UTF-8", b"\xff\xfe\xfd\xfc", "pub"),
    Lie("an ack with a sequence of 2^70", b'{"stream":"S","seq":1180591620717411303424}', "pub"),
]


class Liar(Listener):
    """Follows the protocol except for its lie."""

    def __init__(self, lie: Lie) -> None:
        self._lie = lie

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            if self._lie.at == "info":
                await self._say(writer, self._lie.text)
                await reader.read()
                return
            writer.write(INFO)
            subs: dict[bytes, bytes] = {}
            async for verb, words in requests(reader):
                if verb == b"PING":
                    writer.write(b"PONG\r\n")
                if verb == b"SUB":
                    subs[words[0].rstrip(b"*>")] = words[-1]
                if verb != self._lie.at.upper().encode():
                    continue
                if verb != b"PUB":
                    await self._say(writer, self._lie.text)
                elif len(words) == 3:
                    for subject, sid in subs.items():
                        if words[1].startswith(subject):
                            head = b"MSG %b %b %d\r\n" % (words[1], sid, len(self._lie.text))
                            await self._say(writer, head + self._lie.text + b"\r\n")
        writer.close()

    async def _say(self, writer: asyncio.StreamWriter, text: bytes) -> None:
        writer.write(text)
        await writer.drain()
        while self._lie.endless:
            writer.write(b"x" * 65_536)
            await writer.drain()


async def requests(reader: asyncio.StreamReader) -> AsyncIterator[tuple[bytes, list[bytes]]]:
    """Yields a client's verbs with their arguments; payloads are skipped, HPUB counts as PUB."""
    while line := await reader.readline():
        verb, *words = line.split()
        if verb in (b"PUB", b"HPUB"):
            await reader.readexactly(int(words[-1]) + 2)
            if verb == b"HPUB":
                del words[-2]
            verb = b"PUB"
        yield verb, words


def longest() -> Iterator[float]:
    """Yields the seconds since the previous value."""
    last = time.monotonic()
    while True:
        now = time.monotonic()
        yield now - last
        last = now


async def client(url: str) -> None:
    """Connects, subscribes, publishes, requests and closes; prints the outcome as one line of JSON."""
    before, peak = rss(), 0.0

    async def watch() -> None:
        nonlocal peak
        while True:
            peak = max(peak, rss())
            await asyncio.sleep(0.02)

    async def quiet(_: Exception) -> None:
        pass

    watching = asyncio.ensure_future(watch())
    took = longest()
    next(took)
    most, untyped, ends = 0.0, [], []
    nc = None

    def over(error: BaseException | None) -> None:
        nonlocal most
        most = max(most, next(took))
        ends.append("ok" if error is None else type(error).__name__)
        if error is not None and not isinstance(error, errors.Error | OSError):
            untyped.append(repr(error))

    try:
        nc = await jetarrow.connect(url, connect_timeout=TIMEOUT, max_reconnect_attempts=1, error_cb=quiet)
        over(None)
    except Exception as error:
        over(error)
    if nc is not None:
        js = nc.jetstream(timeout=TIMEOUT)
        for call in (
            lambda: nc.subscribe("a"),
            lambda: js.publish("s.a", b"x", timeout=TIMEOUT),
            lambda: js.publish_batch("s.a", [b"x"] * 10, timeout=TIMEOUT),
            lambda: js.stream_info("S"),
            lambda: nc.request("a", timeout=TIMEOUT),
            lambda: nc.flush(timeout=TIMEOUT),
        ):
            try:
                result = await call()
                failed = getattr(result, "errors", None)
                over(failed[0].error if failed else None)
            except Exception as error:
                over(error)
        try:
            await nc.close()
        except Exception as error:
            # The time of close is not counted: it waits up to 2 s for pending messages.
            if not isinstance(error, errors.Error | OSError):
                untyped.append(repr(error))
    watching.cancel()
    print(json.dumps({"took": most, "grew": max(peak, rss()) - before, "untyped": untyped, "ends": ends}))


if __name__ == "__main__":
    asyncio.run(client(sys.argv[1]))
