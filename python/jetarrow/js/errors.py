"""Errors of JetStream, the key-value store and the object store, under nats-py's module path."""

from __future__ import annotations

from jetarrow.jetstream.errors import *
from jetarrow.jetstream.errors import __all__ as __all__
