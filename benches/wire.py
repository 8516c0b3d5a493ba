"""The yardstick: JetStream over a raw blocking socket, as fast as the server allows.

No client library and no work per message: the publisher sends prebuilt blocks under a window of unanswered
acks and only counts the acks; the puller keeps two large pull requests outstanding and only counts messages.
Both check their count against the server's own after the clock has stopped.

By hand:  python benches/wire.py --url nats://127.0.0.1:4222 publish --count 300000 --size 128
          python benches/wire.py --url nats://127.0.0.1:4222 pull --stream BENCH --count 300000
"""

from __future__ import annotations

import argparse
import json
import random
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rawnats import Chunks, Wire, WireError, add_stream, delete_consumer, delete_stream, purge_stream, stream_messages

__all__ = [
    "Chunks",
    "Wire",
    "WireError",
    "add_stream",
    "count_acks",
    "delete_consumer",
    "delete_stream",
    "make_payload",
    "message_ids",
    "publish",
    "pull",
    "pull_request",
    "purge_stream",
    "push",
    "stream_messages",
]

WINDOW = 5_000  # messages without an ack, like the default of jetarrow
BLOCK_MESSAGES = 500  # sent in one call; a tenth of the window, so that the server never runs dry
BLOCK_BYTES = 1 << 20  # ... but no block over 1 MiB
PULL_MESSAGES = 10_000
PULL_BYTES = 8 << 20
PULLS_OUTSTANDING = 2


def make_payload(size: int) -> bytes:
    """Return the same bytes in every run; they are printable, so that they are valid text too."""
    return bytes(random.Random(size).choices(range(0x20, 0x7F), k=size))


def message_ids(prefix: str, count: int) -> Iterator[str]:
    """Return the ids that `publish(ids=prefix)` sends, for clients that send the same ones."""
    return (f"{prefix}-{i:09d}" for i in range(count))


def _blocks(subject: str, inbox: str, payload: bytes, sizes: list[int], ids: str | None) -> list[bytes]:
    """Return the bytes of each block of `sizes[i]` messages. Without ids all messages have the same bytes."""
    if ids is None:
        one = f"PUB {subject} {inbox} {len(payload)}\r\n".encode() + payload + b"\r\n"
        by_size = {size: one * size for size in set(sizes)}
        return [by_size[size] for size in sizes]
    # ids have a fixed width, so only the digits differ from message to message
    head = f"NATS/1.0\r\nNats-Msg-Id: {next(message_ids(ids, 1))}\r\n\r\n".encode()
    line = f"HPUB {subject} {inbox} {len(head)} {len(head) + len(payload)}\r\n"
    first = f"{line}NATS/1.0\r\nNats-Msg-Id: ".encode()
    rest = b"\r\n\r\n" + payload + b"\r\n"
    names = message_ids(ids, sum(sizes))
    return [b"".join(first + next(names).encode() + rest for _ in range(size)) for size in sizes]


def publish(
    url: str,
    subject: str,
    payload: int | bytes,
    count: int,
    *,
    window: int = WINDOW,
    ids: str | None = None,
    clock: AbstractContextManager[Any] | None = None,
) -> float:
    """Publish `count` messages with acks; the seconds from the first byte sent to the last ack counted.

    `payload` is a size in bytes or the bytes; `ids` a prefix for message ids (all different); `clock` is
    entered for just the time that counts. WireError unless the stream then holds `count` messages more.
    """
    data = payload if isinstance(payload, bytes) else make_payload(payload)
    inbox = f"_INBOX.{uuid.uuid4().hex[:12]}"
    block = max(1, min(BLOCK_MESSAGES, window // 2, BLOCK_BYTES // (len(data) + 100)))
    sizes = [block] * (count // block) + ([count % block] if count % block else [])
    blocks = _blocks(subject, inbox, data, sizes, ids)
    with Wire(url) as wire:
        names = wire.request("$JS.API.STREAM.NAMES", {"subject": subject}).get("streams") or []
        if len(names) != 1:
            raise WireError(f"{len(names)} streams take {subject}")
        before = wire.stream_messages(names[0])
        wire.sock.sendall(f"SUB {inbox} 1\r\n".encode())
        wire.resync()
        chunks = Chunks(wire.sock, len(ACK))
        sent = acked = 0
        with clock or nullcontext():
            start = time.perf_counter()
            for size, bytes_ in zip(sizes, blocks, strict=True):
                while sent + size - acked > window:
                    acked += count_acks(chunks)
                wire.sock.sendall(bytes_)
                sent += size
            while acked < count:
                acked += count_acks(chunks)
            seconds = time.perf_counter() - start
        wire.resync()
        stored = wire.stream_messages(names[0]) - before
    if acked != count or stored != count:
        raise WireError(f"published {count}, {acked} acks, {stored} stored")
    return seconds


# Every ack has one `"seq":`, a refused one `"error"` too, "no responders" is a status. All of one length.
ACK, ACK_ERROR, ACK_STATUS = b'"seq":', b'"error', b"NATS/1"


def count_acks(chunks: Chunks) -> int:
    """Receive a chunk and return the number of acks in it."""
    chunks.next()
    at = max(chunks.find(ACK_ERROR), chunks.find(ACK_STATUS))
    if at >= 0:
        raise WireError(f"not stored: {bytes(chunks.data[at : min(chunks.end, at + 200)])!r}")
    return chunks.count(ACK)


def pull(url: str, stream: str, count: int, *, clock: AbstractContextManager[Any] | None = None) -> float:
    """Pull the first `count` messages with an ephemeral AckNone consumer; the seconds until the last byte.

    Raises WireError unless the consumer then reports exactly `count` delivered messages.
    """
    token = uuid.uuid4().hex[:12]  # new in every call, so no stored payload can hold a marker
    # A message has the reply `$JS.ACK.<stream>.<consumer>.<numbers>`, a status our inbox as its subject.
    message, status = f".{token}.".encode(), f".{token} ".encode()
    inbox = f"_INBOX.{token}"
    config = {
        "name": token,
        "ack_policy": "none",
        "deliver_policy": "all",
        "mem_storage": True,
        "inactive_threshold": 60_000_000_000,
    }
    body = {"stream_name": stream, "config": config, "action": "create"}
    with Wire(url) as wire:
        wire.request(f"$JS.API.CONSUMER.CREATE.{stream}.{token}", body)
        wire.sock.sendall(f"SUB {inbox} 1\r\n".encode())
        wire.resync()
        chunks = Chunks(wire.sock, len(message))
        got = asked = idle = 0
        with clock or nullcontext():
            start = time.perf_counter()
            while got < count:
                while asked < count and asked - got <= PULL_MESSAGES * (PULLS_OUTSTANDING - 1):
                    batch = min(PULL_MESSAGES, count - asked)
                    wire.sock.sendall(pull_request(stream, token, inbox, batch))
                    asked += batch
                chunks.next()
                at = chunks.find(status)
                while at >= 0:  # first, because it may append to the chunk
                    asked -= _unfilled(chunks, at)
                    idle += 1
                    at = chunks.find(status, at + 1)
                new = chunks.count(message)
                got += new
                idle = 0 if new else idle
                if idle > 10:
                    raise WireError(f"{idle} pulls ended with nothing; {got} of {count} messages came")
            wire.resync()  # the rest of the last message is before the PONG
            seconds = time.perf_counter() - start
        info = wire.request(f"$JS.API.CONSUMER.INFO.{stream}.{token}")
        wire.request(f"$JS.API.CONSUMER.DELETE.{stream}.{token}")
    if got != count or info["delivered"]["consumer_seq"] != count:
        raise WireError(f"pulled {count}, {got} came, delivered {info['delivered']}")
    return seconds


def push(url: str, stream: str, count: int, *, clock: AbstractContextManager[Any] | None = None) -> float:
    """Take the first `count` messages from an ephemeral AckNone push consumer with flow control, as an ordered
    consumer has it; the seconds from making the consumer until the last byte. WireError as for `pull`.
    """
    token = uuid.uuid4().hex[:12]
    message, status = f".{token}.".encode(), f".{token} ".encode()
    inbox = f"_INBOX.{token}"
    config = {
        "name": token,
        "deliver_subject": inbox,
        "ack_policy": "none",
        "deliver_policy": "all",
        "mem_storage": True,
        "flow_control": True,
        "idle_heartbeat": 5_000_000_000,
    }
    body = json.dumps({"stream_name": stream, "config": config, "action": "create"}).encode()
    with Wire(url) as wire:
        wire.sock.sendall(f"SUB {inbox} 1\r\n".encode())
        wire.resync()
        chunks = Chunks(wire.sock, len(message))
        got = 0
        with clock or nullcontext():
            start = time.perf_counter()
            # The response is not read: missing messages show a failure.
            create = f"PUB $JS.API.CONSUMER.CREATE.{stream}.{token} _INBOX.unread {len(body)}\r\n"
            wire.sock.sendall(create.encode() + body + b"\r\n")
            while got < count:
                chunks.next()
                at = chunks.find(status)
                while at >= 0:
                    got -= _flow(wire, chunks, at)
                    at = chunks.find(status, at + 1)
                got += chunks.count(message)
            wire.resync()
            seconds = time.perf_counter() - start
        info = wire.request(f"$JS.API.CONSUMER.INFO.{stream}.{token}")
        wire.request(f"$JS.API.CONSUMER.DELETE.{stream}.{token}")
    if got != count or info["delivered"]["consumer_seq"] != count:
        raise WireError(f"pushed {count}, {got} came, delivered {info['delivered']}")
    return seconds


def _flow(wire: Wire, chunks: Chunks, at: int) -> int:
    """Respond to a flow control request, and return the number of message markers in the status itself."""
    while (end := chunks.find(b"\r\n", at)) < 0:
        chunks.more()
    fields = bytes(chunks.data[at:end]).split()
    if len(fields) < 5:  # a heartbeat: nothing to answer to
        return 0
    wire.sock.sendall(b"PUB " + fields[2] + b" 0\r\n\r\n")
    return 1  # the stream's and the consumer's name are in the subject to answer to


def pull_request(stream: str, consumer: str, inbox: str, batch: int) -> bytes:
    body = json.dumps({"batch": batch, "max_bytes": PULL_BYTES, "expires": 10_000_000_000}).encode()
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
    return f"PUB {subject} {inbox} {len(body)}\r\n".encode() + body + b"\r\n"


def _unfilled(chunks: Chunks, at: int) -> int:
    """Return the remaining message count of a pull that ended at its byte limit. Every other status is an error."""
    while (end := chunks.find(b"\r\n\r\n", at)) < 0:
        chunks.more()
    head = bytes(chunks.data[at:end]).split(b"\r\n")[1:]
    fields = dict(line.split(b": ", 1) for line in head[1:])
    if not head[0].startswith(b"NATS/1.0 409") or b"Nats-Pending-Messages" not in fields:
        raise WireError(f"pull ended: {b' | '.join(head).decode()}")
    return int(fields[b"Nats-Pending-Messages"])


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--url", default="nats://127.0.0.1:4222")
    parser.add_argument("what", choices=["publish", "pull"])
    parser.add_argument("--stream", default="BENCH", help="made if missing, and left there with its messages")
    parser.add_argument("--count", type=int, default=300_000)
    parser.add_argument("--size", type=int, default=128, help="bytes of payload (publish)")
    parser.add_argument("--window", type=int, default=WINDOW, help="unanswered acks (publish)")
    parser.add_argument("--ids", action="store_true", help="send message ids (publish)")
    args = parser.parse_args()
    if args.what == "publish":
        add_stream(args.url, args.stream, f"{args.stream}.x")
        ids = uuid.uuid4().hex[:8] if args.ids else None
        seconds = publish(args.url, f"{args.stream}.x", args.size, args.count, window=args.window, ids=ids)
    else:
        seconds = pull(args.url, args.stream, args.count)
    print(f"{args.what}: {args.count} messages in {seconds:.3f} s, {args.count / seconds:,.0f} msg/s")


if __name__ == "__main__":
    main()
