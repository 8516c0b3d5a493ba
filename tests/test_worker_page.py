"""The workers of docs/worker.md: retries, dead letters, health, a restart of the server, and SIGTERM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jetarrow.sync
import pytest
from jetarrow.server import NatsServer

from .tools import free_port, python_blocks, wait_until

PAGE = (Path(__file__).parents[1] / "docs" / "worker.md").read_text("utf-8")
BLOCKS = dict(zip(["worker", "worker-sync", "async", "sync"], python_blocks(PAGE), strict=True))
# Handlers by the order's id; each attempt is a line of the file `attempts`.
_HANDLERS = """
import os, time, asyncio, worker

def attempts(order):
    with open("attempts", "a") as file:
        file.write(f"{order['id']}\\n")
    return open("attempts").read().splitlines().count(str(order["id"]))

def problem(order):
    count = attempts(order)
    if order["id"] == "never" or (order["id"] == "later" and count < 3):
        raise OSError("the database is away")
"""
_ASYNC = """
async def handle(order):
    problem(order)
    while order["id"] == "slow" and not os.path.exists("go"):
        await asyncio.sleep(0.01)
"""
_SYNC = """
def handle(order):
    problem(order)
    while order["id"] == "slow" and not os.path.exists("go"):
        time.sleep(0.01)
"""
_MAIN = {"async": "asyncio.run(worker.main())", "sync": "worker.main()"}
# The line of the programs with `jetarrow.worker` that a test replaces by its work, and their delays.
_WORK = 'log.info("order %s", order["id"])'
_BACKOFF = "Backoff(initial=1, factor=5, maximum=30, attempts=4)"


@contextmanager
def worker(form: str, server: NatsServer, folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """Runs the page's program with other handlers and shorter delays."""
    program = BLOCKS[form].replace("nats://localhost:4222", server.url).replace('"0.0.0.0', '"127.0.0.1')
    face = "async" if form in ("async", "worker") else "sync"
    if form.startswith("worker"):
        assert _WORK in program
        assert _BACKOFF in program
        program = program.replace(_WORK, f"{'await ' if face == 'async' else ''}work(order)")
        program = program.replace(_BACKOFF, "Backoff(initial=0.05, factor=2, maximum=0.1, attempts=4)")
    else:
        assert "RETRY = [1, 5, 30]" in program
        program = program.replace("RETRY = [1, 5, 30]", "RETRY = [0.05, 0.1, 0.1]")
    (folder / "worker.py").write_text(program, "utf-8")
    handler = _ASYNC if face == "async" else _SYNC
    name = "work" if form.startswith("worker") else "handle"
    driver = f"{_HANDLERS}{handler}\nworker.{name} = handle\n{_MAIN[face]}\n"
    (folder / "driver.py").write_text(driver, "utf-8")
    environment = {**os.environ, "HEALTH_PORT": str(port)}
    process = subprocess.Popen(
        [sys.executable, "driver.py"], cwd=folder, env=environment, text=True, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def health(port: int) -> int:
    """Status of the health check; 0 if there is no server."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@pytest.mark.parametrize("form", BLOCKS)
def test_worker(form: str, own_server: NatsServer, tmp_path: Path) -> None:
    port = free_port()
    with jetarrow.sync.connect(own_server.url, max_reconnect_attempts=0) as nc:
        js = nc.jetstream()
        js.add_stream(name="ORDERS", subjects=["orders.>"])
        payloads = ['{"id": 1}', "not JSON", '{"id": "later"}', '{"id": "never"}', *['{"id": 2}'] * 100]
        js.publish_batch("orders.eu", payloads).raise_for_errors()
        with worker(form, own_server, tmp_path, port) as process:
            wait_until(lambda: health(port) == 200, 30)
            wait_until(lambda: js.dead_letters("ORDERS").read_all().num_rows == 2, 30)
            wait_until(lambda: len((tmp_path / "attempts").read_text().splitlines()) >= 108, 30)
            letters = js.dead_letters("ORDERS").read_all().select(["data", "kind"]).to_pylist()
            assert sorted(letter["data"] for letter in letters) == [b"not JSON", b'{"id": "never"}']
            done = (tmp_path / "attempts").read_text().splitlines()
            assert {id: done.count(id) for id in set(done)} == {"1": 1, "2": 100, "later": 3, "never": 4}

            # The worker continues after a restart of the server.
            own_server.restart()
            js.publish("orders.eu", '{"id": 3}')
            wait_until(lambda: "3" in (tmp_path / "attempts").read_text().splitlines(), 60)
            wait_until(lambda: health(port) == 200, 30)

            # SIGTERM in the middle of a message: it is finished and acknowledged, and later ones remain.
            js.publish("orders.eu", '{"id": "slow"}')
            wait_until(lambda: "slow" in (tmp_path / "attempts").read_text().splitlines(), 30)
            process.send_signal(signal.SIGTERM)
            if form.startswith("worker"):
                # Before that it may request the next message.
                wait_until(lambda: health(port) != 200, 30)
            js.publish("orders.eu", '{"id": 4}')
            (tmp_path / "go").touch()
            assert process.wait(30) == 0, process.communicate()[1]
        # The server counts acks a little later than they arrive.
        last = js.stream_info("ORDERS").state.last_seq
        wait_until(lambda: js.consumer_info("ORDERS", "billing").ack_floor.stream_seq == last - 1, 30)
        info = js.consumer_info("ORDERS", "billing")
        # A request that was under way may have received the last message, which is then returned.
        assert (info.num_pending + info.num_ack_pending, info.ack_floor.stream_seq) == (1, last - 1)
        done = (tmp_path / "attempts").read_text().splitlines()
        assert (done.count("slow"), done.count("4")) == (1, 0)


def test_forms_have_the_same_settings() -> None:
    for setting in ("URL = ", "RETRY = ", "ACK_WAIT = ", 'durable="billing"', "max_deliver=len(RETRY) + 1"):
        assert all(setting in BLOCKS[form] for form in ("async", "sync")), setting
