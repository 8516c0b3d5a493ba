"""Process that answers the requests of `jetarrow bench`: `python -m jetarrow.cli.bench_responder`.

Its stdin has the options of the connection, so that no secret is in its arguments. It ends when stdin is closed, so
it never outlives the command.
"""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

# Subject below that of the requests, for the CPU time of this process in seconds.
CPU = "cpu"
_READY = b"ready\n"


@contextmanager
def responding(options: Mapping[str, Any], subject: str) -> Iterator[None]:
    """Answer requests in a process of its own in the block.

    Args:
        options: Options of `connect`.
        subject: Subject of the requests. Below it, `cpu` answers with the CPU time of the process.

    Raises:
        RuntimeError: The process could not connect.
    """
    given = pickle.dumps({"options": dict(options), "subject": subject})
    command = [sys.executable, "-m", __spec__.name]
    # In a session of its own, because Ctrl-C reaches all processes of a terminal's session.
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            if process.stdin is None or process.stdout is None:
                raise RuntimeError("the process that answers requests has no pipes")
            with suppress(BrokenPipeError):
                process.stdin.write(len(given).to_bytes(8, "big") + given)
                process.stdin.flush()
            if process.stdout.readline() != _READY:
                raise RuntimeError(
                    "the process that answers requests could not connect; leave out the rows `request` and"
                    " `request_tasks`"
                )
            yield
        finally:
            process.kill()


def main() -> None:
    """Answer requests until stdin is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import asyncio

    size = int.from_bytes(sys.stdin.buffer.read(8), "big")
    given = pickle.loads(sys.stdin.buffer.read(size))
    asyncio.run(_respond(given["options"], given["subject"]))


async def _respond(options: Mapping[str, Any], subject: str) -> None:
    import asyncio

    import jetarrow
    from jetarrow.aio.msg import Msg

    async def answer(message: Msg) -> None:
        await message.respond(message.data)

    async def answer_cpu(message: Msg) -> None:
        await message.respond(repr(time.process_time()).encode())

    async with await jetarrow.connect(**options) as nc:
        await nc.subscribe(subject, cb=answer)
        await nc.subscribe(f"{subject}.{CPU}", cb=answer_cpu)
        await nc.flush()
        sys.stdout.buffer.write(_READY)
        sys.stdout.buffer.flush()
        # In a thread, because the loop answers meanwhile.
        await asyncio.to_thread(sys.stdin.buffer.read)


if __name__ == "__main__":
    main()
