"""Dead letters after a rollback: a new message is not mistaken for the failed one with its sequence."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from jetarrow.jetstream.context import JetStreamContext
from jetarrow.server import NatsServer

from ..tools import until
from .tools import STREAM, publish, with_other_client


async def test_a_message_of_another_history_is_no_dead_letter(
    own_server: NatsServer, js: JetStreamContext, tmp_path: Path
) -> None:
    kept = await js.keep_dead_letters(STREAM)
    await publish(js, 2)
    await asyncio.to_thread(own_server.stop)
    stored = own_server.store_dir / "jetstream" / "$G" / "streams" / STREAM
    shutil.copytree(stored, tmp_path / "copy")
    await asyncio.to_thread(own_server.start)
    await with_other_client(own_server, lambda other: publish(other, 2))
    sub = await js.pull_subscribe(f"{STREAM}.>", durable="strict")
    for msg in await sub.fetch(4, timeout=10):
        await msg.term(reason="no such account")

    async def told() -> bool:
        return (await js.stream_info(kept.config.name or "")).state.messages == 4

    await until(told)
    # Only this stream is restored; the stream of the advisories keeps its state.
    await asyncio.to_thread(own_server.kill)
    shutil.rmtree(stored)
    shutil.copytree(tmp_path / "copy", stored)
    await asyncio.to_thread(own_server.start)
    await with_other_client(own_server, lambda other: publish(other, 1, "new"))
    table = await js.dead_letters(STREAM).read_all()
    rows = {row["seq"]: row["data"] for row in table.to_pylist()}
    # Sequence 3 now holds another message, and 4 does not exist.
    assert rows == {1: b"old 0", 2: b"old 1", 3: None, 4: None}
    result = await js.dead_letters(STREAM).replay()
    result.raise_for_errors()
    assert len(result.seqs) == 2
    assert [(await js.get_msg(STREAM, seq)).data for seq in (4, 5)] == [b"old 0", b"old 1"]
