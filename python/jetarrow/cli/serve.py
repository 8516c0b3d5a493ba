"""`jetarrow serve`: a real nats-server for a laptop."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb


def add_to(app: typer.Typer) -> None:
    """Adds the subcommand."""
    verb(app, "serve", example="jetarrow serve --store-dir data", server=False)(serve)


def serve(
    session: Session,
    store_dir: Annotated[
        Path | None, typer.Option(help="Where streams are kept; else a temporary folder, removed at the end.")
    ] = None,
    port: Annotated[
        int, typer.Option(help="Port on this machine's loopback; 0 is a free one.", min=0, max=65535)
    ] = 4222,
    config: Annotated[Path | None, typer.Option(help="Configuration file of nats-server.", exists=True)] = None,
) -> None:
    """Runs a nats-server with JetStream until Ctrl-C. Only this machine can reach it."""
    from jetarrow.server import NatsServer

    ended = threading.Event()
    former = signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        with NatsServer(store_dir, config, port) as server:
            session.done(f"{server.url}", url=server.url, pid=server.pid, store_dir=str(server.store_dir))
            typer.get_text_stream("stdout").flush()
            if not session.as_json:
                session.say(f"nats-server (pid {server.pid}) keeps its streams in {server.store_dir}; Ctrl-C ends it")
            while server.running and not ended.wait(0.2):
                pass
            if not ended.is_set():
                raise RuntimeError(f"nats-server ended by itself: {server.log.strip().splitlines()[-1]}")
    finally:
        signal.signal(signal.SIGTERM, former)
