"""The names of commands, under nats-py's path. What writes them is native."""

from __future__ import annotations

from jetarrow.core.protocol import missing_names as _missing_names

PUB_OP = "PUB"
HPUB_OP = "HPUB"
SUB_OP = "SUB"
UNSUB_OP = "UNSUB"

__getattr__ = _missing_names(__name__, "commands are written by the native core: use the verbs of the client")
