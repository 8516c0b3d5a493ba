"""Management of JetStream, under nats-py's module path."""

from __future__ import annotations

# Imports of the form `X as X` exist in nats-py's module, too.
from jetarrow.core.errors import NoRespondersError as NoRespondersError
from jetarrow.jetstream.doctor.finding import Finding as Finding
from jetarrow.jetstream.doctor.finding import Findings as Findings
from jetarrow.jetstream.doctor.finding import Severity as Severity
from jetarrow.jetstream.doctor.thresholds import Thresholds as Thresholds
from jetarrow.jetstream.errors import APIError as APIError
from jetarrow.jetstream.errors import ConsumerInvalidResetError as ConsumerInvalidResetError
from jetarrow.jetstream.errors import NotFoundError as NotFoundError
from jetarrow.jetstream.errors import ServiceUnavailableError as ServiceUnavailableError
from jetarrow.jetstream.manager import JetStreamManager
from jetarrow.js import api as api

__all__ = ["JetStreamManager"]
