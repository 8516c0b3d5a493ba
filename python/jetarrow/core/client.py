"""A client of core NATS."""

from __future__ import annotations

from typing import Any

from jetarrow import _jetarrow
from jetarrow._jetarrow import Msg
from jetarrow.core.connect import Connect
from jetarrow.core.loop_session import LoopSession
from jetarrow.core.message import AnyMessage
from jetarrow.core.publish import Publish
from jetarrow.core.request import Request, RequestMany
from jetarrow.core.session import Session
from jetarrow.core.status import Status
from jetarrow.core.subscribe import Subscribe


class MessageClass:
    """The attribute `msg_class`: the class of a client's messages. A subclass or a client may set another one."""

    def __init__(self, default: type[AnyMessage]) -> None:
        self._default = default

    def __get__(self, client: Any, owner: type[Any]) -> Any:
        return self._default if client is None else client._session.msg_class

    def __set__(self, client: Any, chosen: type[AnyMessage]) -> None:
        client._session.msg_class = chosen


class CoreClient(Connect, Publish, Subscribe, Request, RequestMany, Status):
    """A connection to NATS without JetStream."""

    msg_class = MessageClass(Msg)

    def __init__(self, *, _session: Session | None = None) -> None:
        self._session = _session if _session is not None else LoopSession()
        self._session.set_client(self)
        if type(self).msg_class is not Msg:
            self._session.msg_class = type(self).msg_class

    def __repr__(self) -> str:
        return f"<nats client v{_jetarrow.__version__}>"
