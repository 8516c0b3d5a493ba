"""Management of JetStream, under nats-py's path."""

from __future__ import annotations

# What is imported as itself (`X as X`), nats-py has here, too.
from jetarrow.core.errors import NoRespondersError as NoRespondersError
from jetarrow.jetstream.errors import APIError as APIError
from jetarrow.jetstream.errors import ConsumerInvalidResetError as ConsumerInvalidResetError
from jetarrow.jetstream.errors import NotFoundError as NotFoundError
from jetarrow.jetstream.errors import ServiceUnavailableError as ServiceUnavailableError
from jetarrow.jetstream.manager import JetStreamManager
from jetarrow.js import api as api

__all__ = ["JetStreamManager"]
