"""The names of protocol commands, under nats-py's module path. The native core writes them."""

from __future__ import annotations

from jetarrow.core.protocol import missing_names as _missing_names

PUB_OP = "PUB"
HPUB_OP = "HPUB"
SUB_OP = "SUB"
UNSUB_OP = "UNSUB"

__getattr__ = _missing_names(__name__, "the native core writes commands; use the methods of the client")
