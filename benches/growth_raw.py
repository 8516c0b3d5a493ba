"""Raw sockets for growth.py, as in wire.py, for many subjects, streams, subscriptions and consumers.

`growth_raw.py feed` is the process that publishes to subscriptions. It prints "ready", and sends at the first line on
stdin.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import wire
from growth_point import subjects_of
from harness import Run

BLOCK = 500  # messages sent in one call, as in wire.py
TIMEOUT = 60.0  # seconds; against a hang only


def blocks(line: Callable[[int], bytes], parts: int, count: int) -> list[tuple[int, bytes]]:
    """Return the blocks of `count` messages with the size of each; message i is `line(i % parts)`.

    Blocks with the same contents are one object, so that their number costs no memory.
    """
    made: dict[tuple[int, int], bytes] = {}
    found = []
    for start in range(0, count, BLOCK):
        key = (start % parts, min(BLOCK, count - start))
        if key not in made:
            made[key] = b"".join(line((start + i) % parts) for i in range(key[1]))
        found.append((key[1], made[key]))
    return found


def publish(run: Run, subjects: list[str]) -> int:
    """Publish `run.count` messages to the subjects in turn, with acks, as `wire.publish` does to one."""
    inbox = f"_INBOX.{uuid.uuid4().hex[:12]}"
    end = f" {inbox} {run.size}\r\n".encode() + wire.make_payload(run.size) + b"\r\n"
    made = blocks(lambda i: b"PUB " + subjects[i].encode() + end, len(subjects), run.count)
    sent = acked = 0
    with wire.Wire(run.url) as connection:
        connection.sock.sendall(f"SUB {inbox} 1\r\n".encode())
        connection.resync()
        chunks = wire.Chunks(connection.sock, len(wire.ACK))
        with run.clock():
            for size, block in made:
                while sent + size - acked > wire.WINDOW:
                    acked += wire.count_acks(chunks)
                connection.sock.sendall(block)
                sent += size
            while acked < run.count:
                acked += wire.count_acks(chunks)
    return acked


def read_ranges(run: Run, ranges: Iterable[tuple[str, int, int]]) -> int:
    """Read ranges (stream, first sequence, rows) one after another, each with a consumer of its own.

    The clock includes the creation and the deletion of the consumers, because each read has them.
    """
    token = uuid.uuid4().hex[:12]
    marker, inbox = f".{token}.".encode(), f"_INBOX.{token[::-1]}"
    common = {"name": token, "ack_policy": "none", "deliver_policy": "by_start_sequence", "mem_storage": True}
    total = 0
    with wire.Wire(run.url) as connection:
        connection.sock.sendall(f"SUB {inbox} 1\r\n".encode())
        connection.resync()
        chunks = wire.Chunks(connection.sock, len(marker))
        with run.clock():
            for stream, start, rows in ranges:
                body = {"stream_name": stream, "config": {**common, "opt_start_seq": start}, "action": "create"}
                connection.request(f"$JS.API.CONSUMER.CREATE.{stream}.{token}", body)
                total += _pull(connection, chunks, wire.pull_request(stream, token, inbox, rows), marker, rows)
                connection.request(f"$JS.API.CONSUMER.DELETE.{stream}.{token}")
    return total


def fetch(run: Run, stream: str, consumers: list[str], rows: int) -> int:
    """Request `rows` messages from one consumer after another, until `run.count` messages have arrived.

    The names of the consumers have the same length and the same first twelve characters.
    """
    token = consumers[0][:12]
    marker, inbox = f".{stream}.{token}".encode(), f"_INBOX.{uuid.uuid4().hex[:12]}"
    total = 0
    with wire.Wire(run.url) as connection:
        connection.sock.sendall(f"SUB {inbox} 1\r\n".encode())
        connection.resync()
        chunks = wire.Chunks(connection.sock, len(marker))
        with run.clock():
            for call in range(run.count // rows):
                request = wire.pull_request(stream, consumers[call % len(consumers)], inbox, rows)
                total += _pull(connection, chunks, request, marker, rows)
            connection.resync()
    return total


def _pull(connection: wire.Wire, chunks: wire.Chunks, request: bytes, marker: bytes, rows: int) -> int:
    connection.sock.sendall(request)
    got = 0
    while got < rows:
        chunks.next()
        got += chunks.count(marker)
    if got != rows:
        raise wire.WireError(f"{got} messages for a request of {rows}")
    return got


def receive(run: Run, subjects: list[str]) -> int:
    """Subscribe to the subjects and count the messages of the process `feed`."""
    marker = f"MSG {run.subject}.".encode()
    got = 0
    with wire.Wire(run.url) as connection:
        lines = (f"SUB {subject} {number}\r\n".encode() for number, subject in enumerate(subjects, 1))
        connection.sock.sendall(b"".join(lines))
        connection.resync()
        chunks = wire.Chunks(connection.sock, len(marker))
        with feeder(run, len(subjects)) as go, run.clock():
            go()
            while got < run.count:
                chunks.next()
                got += chunks.count(marker)
            connection.resync()  # the rest of the last message is before the PONG
    return got


@contextmanager
def feeder(run: Run, parts: int) -> Iterator[Callable[[], None]]:
    """Start the process that publishes `run.count` messages to `parts` subjects. The result lets it begin."""
    given = json.dumps([run.url, run.subject, parts, run.count, run.size])
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, __file__, "feed", given], stdin=pipe, stdout=pipe, text=True) as started:
        try:
            stdin, stdout = started.stdin, started.stdout
            if stdin is None or stdout is None or stdout.readline() != "ready\n":
                raise RuntimeError("growth_raw.py feed did not start")
            yield lambda: print("go", file=stdin, flush=True)
        finally:
            started.kill()


def feed(url: str, token: str, parts: int, count: int, size: int) -> None:
    end = f" {size}\r\n".encode() + wire.make_payload(size) + b"\r\n"
    subjects = subjects_of(token, parts)
    made = blocks(lambda i: b"PUB " + subjects[i].encode() + end, parts, count)
    with wire.Wire(url) as connection:
        print("ready", flush=True)
        sys.stdin.readline()
        for _, block in made:
            connection.sock.sendall(block)
        connection.resync()


if __name__ == "__main__":
    feed(*json.loads(sys.argv[2]))
