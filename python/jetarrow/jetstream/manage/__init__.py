"""Management of streams, consumers and single messages."""

from __future__ import annotations

from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.manage.consumers import ConsumerVerbs
from jetarrow.jetstream.manage.messages import MessageVerbs
from jetarrow.jetstream.manage.streams import StreamVerbs


class Management(StreamVerbs, ConsumerVerbs, MessageVerbs):
    """All verbs of management, on one API."""

    def __init__(self, api: JetStreamApi) -> None:
        self._api = api
