"""Errors of the connection and of core NATS, under nats-py's path."""

from __future__ import annotations

from jetarrow.core.errors import *
from jetarrow.core.errors import __all__ as __all__
