"""A client of core NATS."""

from __future__ import annotations

from jetarrow import _jetarrow
from jetarrow.core import message_fields as message_fields  # gives messages their fields
from jetarrow.core.connect import Connect
from jetarrow.core.loop_session import LoopSession
from jetarrow.core.publish import Publish
from jetarrow.core.request import Request
from jetarrow.core.request_many import RequestMany
from jetarrow.core.session import Session
from jetarrow.core.status import Status
from jetarrow.core.subscribe import Subscribe


class CoreClient(Connect, Publish, Subscribe, Request, RequestMany, Status):
    """A connection to NATS without JetStream."""

    def __init__(self, *, _session: Session | None = None) -> None:
        self._session = _session if _session is not None else LoopSession()

    def __repr__(self) -> str:
        return f"<nats client v{_jetarrow.__version__}>"
