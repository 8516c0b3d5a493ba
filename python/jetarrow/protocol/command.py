"""The names of commands, under nats-py's path. What writes them is native."""

from __future__ import annotations

from jetarrow.core.protocol import absent as _absent

PUB_OP = "PUB"
HPUB_OP = "HPUB"
SUB_OP = "SUB"
UNSUB_OP = "UNSUB"

__getattr__ = _absent(__name__, "commands are written by the native core: use the verbs of the client")
