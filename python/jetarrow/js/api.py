"""Types of the JetStream API, under nats-py's module path."""

from __future__ import annotations

from jetarrow.jetstream.models import *
from jetarrow.jetstream.models import __all__ as __all__
