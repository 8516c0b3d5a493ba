"""The other end of core messaging, in a process of its own: the same for every client, and not counted as theirs.

Run by core.py. It prints "ready", then:
    feed     at the first line on stdin sends COUNT messages, as fast as the server takes them
    respond  answers every request with SIZE bytes, until it is ended

A raw socket without work per message, as in wire.py, so that it is no bottleneck.
"""

from __future__ import annotations

import re
import sys

import wire

BLOCK = 500  # messages sent in one call
LINE = 512  # bytes that the line of a request has at most
REQUEST = re.compile(rb"MSG \S+ 1 (\S+) \d+\r\n")


def blocks(subject: str, payload: bytes, count: int) -> list[bytes]:
    one = f"PUB {subject} {len(payload)}\r\n".encode() + payload + b"\r\n"
    whole, rest = divmod(count, BLOCK)
    return [one * BLOCK] * whole + [one * rest]


def feed(url: str, subject: str, payload: bytes, count: int) -> None:
    made = blocks(subject, payload, count)
    with wire.Wire(url) as connection:
        print("ready", flush=True)
        sys.stdin.readline()
        for block in made:
            connection.sock.sendall(block)
        connection.resync()


def respond(url: str, subject: str, payload: bytes) -> None:
    rest = f" {len(payload)}\r\n".encode() + payload + b"\r\n"
    with wire.Wire(url) as connection:
        connection.sock.sendall(f"SUB {subject} 1\r\n".encode())
        connection.resync()
        print("ready", flush=True)
        left = b""  # a line that the chunk before cut off
        while chunk := connection.sock.recv(1 << 20):
            data = left + chunk
            requests = list(REQUEST.finditer(data))
            answers = [b"PUB " + request[1] + rest for request in requests]
            if b"PING\r\n" in chunk:
                answers.append(b"PONG\r\n")
            connection.sock.sendall(b"".join(answers))
            left = data[max(len(data) - LINE, requests[-1].end() if requests else 0) :]


def main() -> None:
    url, what, subject, count, size = sys.argv[1:]
    payload = wire.make_payload(int(size))
    if what == "feed":
        feed(url, subject, payload, int(count))
    else:
        respond(url, subject, payload)


if __name__ == "__main__":
    main()
