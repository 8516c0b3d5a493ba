"""`jetarrow serve`: run a local nats-server."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from jetarrow.cli.json_shape import an_object
from jetarrow.cli.session import Session
from jetarrow.cli.signals import has_stopped
from jetarrow.cli.subcommand import verb


def add_to(app: typer.Typer) -> None:
    """Adds the subcommand."""
    verb(app, "serve", example="jetarrow serve --store-dir data", json=an_object("url pid store_dir"), server=False)(
        serve
    )


def serve(
    session: Session,
    store_dir: Annotated[
        Path | None, typer.Option(help="Folder of the streams; default a temporary one, removed at the end.")
    ] = None,
    port: Annotated[
        int, typer.Option(help="Port on the loopback interface; 0 selects a free one.", min=0, max=65535)
    ] = 4222,
    config: Annotated[Path | None, typer.Option(help="Configuration file of nats-server.", exists=True)] = None,
) -> None:
    """Runs a nats-server with JetStream until Ctrl-C. It listens on the loopback interface only."""
    from jetarrow.server import NatsServer

    ended = threading.Event()
    former = signal.signal(signal.SIGTERM, lambda *_: ended.set())
    # A shell script starts background commands with SIGINT ignored, and may stop a server by it.
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    if ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with NatsServer(store_dir, config, port) as server:
            session.done(f"{server.url}", url=server.url, pid=server.pid, store_dir=str(server.store_dir))
            typer.get_text_stream("stdout").flush()
            if not session.as_json:
                session.say(f"started nats-server (pid {server.pid}, store {server.store_dir}); stop it with Ctrl-C")
            while server.running and not ended.wait(0.2):
                if has_stopped():
                    # Python ignored the exception of the signal, which came while it finalized an object.
                    raise KeyboardInterrupt
            if not ended.is_set():
                raise RuntimeError(f"nats-server stopped unexpectedly: {server.log.strip().splitlines()[-1]}")
    finally:
        signal.signal(signal.SIGTERM, former)
        if ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
