"""Connecting: options, errors, closing, loops, forks."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import subprocess
import sys
import time
import weakref

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import errors
from jetarrow.server import NatsServer

from .tools import in_threads


async def test_absent_server_is_named_within_the_timeout(closed_port: int) -> None:
    address = f"127.0.0.1:{closed_port}"
    begin = time.monotonic()
    with pytest.raises(errors.NoServersError, match=address):
        await jetarrow.connect(f"nats://{address}")
    assert time.monotonic() - begin < 2.5


def test_silent_server_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        took: list[float] = []
        # The default is 2 s. The best of three: a busy machine may pause.
        while len(took) < 3 and min(took, default=2) >= 1.5:
            begin = time.monotonic()
            with pytest.raises(errors.NoServersError, match=f"{address}.*0.3 s"):
                jetarrow.sync.connect(address, connect_timeout=0.3)
            took.append(time.monotonic() - begin)
        assert min(took) < 1.5


async def test_list_and_comma_list(nats_url: str, closed_port: int) -> None:
    dead = f"nats://127.0.0.1:{closed_port}"
    for servers in ([dead, nats_url], f"{dead}, {nats_url}"):
        async with await jetarrow.connect(servers) as nc:
            assert nc.is_connected
            assert nc.max_payload == 1024 * 1024


@pytest.mark.parametrize("url", ["nats://host:notaport", "http://x", "nats://[::", "", "nats://a b"])
async def test_bad_addresses(url: str) -> None:
    with pytest.raises(errors.BadAddressError):
        await jetarrow.connect(url, connect_timeout=0.5)


@pytest.mark.parametrize("timeout", [-1.0, float("nan")])
def test_bad_timeouts(timeout: float, nats_url: str) -> None:
    with pytest.raises(ValueError, match="connect_timeout"):
        jetarrow.sync.connect(nats_url, connect_timeout=timeout)


SECRET = "canary-s3cret"
AUTH = f"authorization {{ user: me, password: {SECRET} }}"


def test_credentials() -> None:
    with NatsServer(config=AUTH) as server:
        with jetarrow.sync.connect(server.url, user="me", password=SECRET) as nc:
            assert nc.is_connected
        with jetarrow.sync.connect(server.url.replace("//", f"//me:{SECRET}@")) as nc:
            assert nc.is_connected
        with pytest.raises(errors.AuthorizationError) as info:
            jetarrow.sync.connect(server.url, user="me", password="wrong-canary")
        assert "wrong-canary" not in str(info.value)
        with pytest.raises(errors.AuthorizationError) as info:
            jetarrow.sync.connect(server.url.replace("//", "//me:wrong-canary@"))
        assert "wrong-canary" not in str(info.value) + repr(info.value)


async def test_closed_client(nats_url: str) -> None:
    nc = await jetarrow.connect(nats_url)
    js = nc.jetstream()
    await nc.close()
    await nc.close()
    assert nc.is_closed
    assert not nc.is_connected
    with pytest.raises(errors.ConnectionClosedError):
        await js.publish("x", b"")


async def test_close_sends_what_is_queued(nats_url: str, stream: str) -> None:
    nc = await jetarrow.connect(nats_url)
    task = asyncio.ensure_future(nc.jetstream().publish_batch(f"{stream}.a", [b"x"] * 5_000))
    result = await task
    await nc.close()
    assert result.stored == 5_000


async def test_close_does_not_wait_for_a_dead_server(own_server: NatsServer) -> None:
    nc = await jetarrow.connect(own_server.url)
    own_server.kill()
    await asyncio.wait_for(nc.close(), 10)


def test_several_loops_in_several_threads(nats_url: str, stream: str) -> None:
    stored: list[int] = []

    async def work() -> None:
        async with await jetarrow.connect(nats_url) as nc:
            result = await nc.jetstream().publish_batch(f"{stream}.a", [b"x"] * 1_000)
            stored.append(result.stored)

    in_threads(lambda _: asyncio.run(work()), 4)
    assert stored == [1_000] * 4


def test_a_loop_without_readers(nats_url: str, stream: str) -> None:
    class Loop(asyncio.SelectorEventLoop):
        """As Windows' default loop: no add_reader for anybody but itself."""

        def add_reader(self, fd, callback, *args):  # type: ignore[no-untyped-def]
            raise NotImplementedError

    async def work() -> int:
        async with await jetarrow.connect(nats_url) as nc:
            acks = await asyncio.gather(*(nc.jetstream().publish(f"{stream}.a", b"x") for _ in range(100)))
            return len(acks)

    loop = Loop()
    try:
        assert loop.run_until_complete(work()) == 100
    finally:
        loop.close()


def test_uvloop(nats_url: str, stream: str) -> None:
    import uvloop

    async def work() -> int:
        async with await jetarrow.connect(nats_url) as nc:
            return (await nc.jetstream().publish_batch(f"{stream}.a", [b"x"] * 1_000)).stored

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(work()) == 1_000


def test_a_loop_goes_with_all_that_belongs_to_it(nats_url: str) -> None:
    async def work() -> None:
        async with await jetarrow.connect(nats_url):
            pass

    loop = asyncio.new_event_loop()
    loop.run_until_complete(work())
    loop.close()
    gone = weakref.ref(loop)
    del loop
    gc.collect()
    assert gone() is None


LOOP_CLOSED_EARLY = """
import asyncio, sys, jetarrow
async def main(url, stream):
    nc = await jetarrow.connect(url)
    js = nc.jetstream()
    tasks = [asyncio.ensure_future(js.publish_batch(f"{stream}.a", [b"x"] * 20_000)) for _ in range(3)]
    await asyncio.sleep(0)
    return tasks, nc
kept = asyncio.run(main(*sys.argv[1:]))
print("done")
"""


def test_work_in_flight_at_the_end_leaves_no_traceback(nats_url: str, stream: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOP_CLOSED_EARLY, nats_url, stream],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


FORK = """
import os, sys, jetarrow.sync
from jetarrow.errors import ForkError
url, stream = sys.argv[1:]
nc = jetarrow.sync.connect(url)
js = nc.jetstream()
sub = js.pull_subscribe(f"{stream}.>", durable="d")
js.publish(f"{stream}.a", b"parent")
pid = os.fork()
if pid == 0:
    for use in (lambda: js.publish(f"{stream}.a", b"x"), lambda: sub.fetch_batch(1), nc.close):
        try:
            use()
        except ForkError as error:
            assert str(os.getppid()) in str(error), error
        else:
            raise AssertionError("no ForkError")
    with jetarrow.sync.connect(url) as fresh:
        fresh.jetstream().publish(f"{stream}.a", b"child")
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
js.publish(f"{stream}.a", b"parent again")
print(js.stream_info(stream).state.messages)
nc.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_fork(nats_url: str, stream: str) -> None:
    done = subprocess.run([sys.executable, "-c", FORK, nats_url, stream], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


PENDING = """
import os, sys, time, jetarrow.sync
from jetarrow.errors import ForkError
from jetarrow.server import NatsServer
with NatsServer() as server, jetarrow.sync.connect(server.url) as nc:
    js = nc.jetstream()
    js.add_stream(name="S", subjects=["s"])
    server.pause()
    publisher = js.publisher("s")
    futures = [publisher.publish(b"x") for _ in range(5)] + [js.publish_async("s", b"x") for _ in range(5)]
    pid = os.fork()
    if pid == 0:
        for use in (publisher.flush, js.publish_async_completed, lambda: publisher.publish(b"y")):
            try:
                use()
            except ForkError:
                pass
            else:
                raise AssertionError("no ForkError")
        # Past the parent's server, which is not the child's to end; the handlers of the end run.
        import atexit
        begin = time.monotonic()
        atexit._run_exitfuncs()
        print("waited" if time.monotonic() - begin > 1 else "ended at once", flush=True)
        os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    server.resume()
    print(sorted(future.result(10).seq for future in futures))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_does_not_wait_for_its_parents_acks() -> None:
    done = subprocess.run([sys.executable, "-c", PENDING], capture_output=True, text=True, timeout=30)
    expected = f"ended at once\n{list(range(1, 11))}\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")


INBOXES = """
import os, sys, jetarrow.sync

def draw():
    with jetarrow.sync.connect(sys.argv[1]) as nc:
        return [nc.new_inbox() for _ in range(3)]

found = draw()
read, write = os.pipe()
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        os.write(write, "".join(inbox + "\\n" for inbox in draw()).encode())
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
os.close(write)
found += open(read).read().split() + draw()
print(len(found), len(set(found)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_forked_processes_draw_other_inboxes(nats_url: str) -> None:
    done = subprocess.run([sys.executable, "-c", INBOXES, nats_url], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "12 12\n", "")


def test_no_thread_starts_at_import() -> None:
    code = "import os, jetarrow, jetarrow.sync; print(len(os.listdir('/proc/self/task')))"
    if not os.path.isdir("/proc/self/task"):
        pytest.skip("needs /proc")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "1\n"
