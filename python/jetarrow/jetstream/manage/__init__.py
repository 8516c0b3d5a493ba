"""Management of streams, consumers and single messages."""

from __future__ import annotations

from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.manage.backup import BackupVerbs
from jetarrow.jetstream.manage.consumers import ConsumerVerbs
from jetarrow.jetstream.manage.counters import CounterVerbs
from jetarrow.jetstream.manage.multi_get import MultiGetVerbs
from jetarrow.jetstream.manage.streams import StreamVerbs


class Management(StreamVerbs, ConsumerVerbs, CounterVerbs, MultiGetVerbs, BackupVerbs):
    """All verbs of management, on one API."""

    def __init__(self, api: JetStreamApi) -> None:
        self._api = api
