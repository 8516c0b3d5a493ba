"""The blocking JetStream manager."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from jetarrow.core.docstrings import documented_as
from jetarrow.jetstream.manager import JetStreamManager as AsyncManager
from jetarrow.jetstream.models import AdvisoryKind
from jetarrow.sync.blocking import blocking, forwarded, inner_repr, iterated, wrapped
from jetarrow.sync.handles import Advisories, Stream

if TYPE_CHECKING:
    from jetarrow.sync.context import JetStream


class JetStreamManager:
    """As `jetarrow.js.manager.JetStreamManager`, blocking."""

    # The class of contexts, a subclass of this one.
    _context: ClassVar[type[JetStream]]

    def __init__(self, inner: AsyncManager) -> None:
        self._inner = inner

    __repr__ = inner_repr
    account_info = blocking(AsyncManager.account_info)
    lag = blocking(AsyncManager.lag)
    doctor = blocking(AsyncManager.doctor)

    get_options = forwarded(AsyncManager.get_options)

    @documented_as(AsyncManager.jetstream)
    def jetstream(self) -> JetStream:
        """As `jetarrow.js.manager.JetStreamManager.jetstream`; the context blocks."""
        return self._context(self._inner.jetstream())

    add_stream = blocking(AsyncManager.add_stream)
    update_stream = blocking(AsyncManager.update_stream)
    stream_info = blocking(AsyncManager.stream_info)
    delete_stream = blocking(AsyncManager.delete_stream)
    purge_stream = blocking(AsyncManager.purge_stream)
    streams_info = blocking(AsyncManager.streams_info)
    streams_info_iterator = blocking(AsyncManager.streams_info_iterator)
    streams = iterated(AsyncManager.streams)
    stream_names = iterated(AsyncManager.stream_names)
    backup_stream = blocking(AsyncManager.backup_stream)
    restore_stream = blocking(AsyncManager.restore_stream)
    find_stream_name_by_subject = blocking(AsyncManager.find_stream_name_by_subject)

    add_consumer = blocking(AsyncManager.add_consumer)
    update_consumer = blocking(AsyncManager.update_consumer)
    consumer_info = blocking(AsyncManager.consumer_info)
    consumers_info = blocking(AsyncManager.consumers_info)
    delete_consumer = blocking(AsyncManager.delete_consumer)
    pause_consumer = blocking(AsyncManager.pause_consumer)
    resume_consumer = blocking(AsyncManager.resume_consumer)
    reset_consumer = blocking(AsyncManager.reset_consumer)
    unpin_consumer = blocking(AsyncManager.unpin_consumer)

    get_msg = blocking(AsyncManager.get_msg)
    get_last_msg = blocking(AsyncManager.get_last_msg)
    get_last_msgs_for = blocking(AsyncManager.get_last_msgs_for)
    get_batch = blocking(AsyncManager.get_batch)
    counter = blocking(AsyncManager.counter)
    delete_msg = blocking(AsyncManager.delete_msg)

    get_stream = wrapped(AsyncManager.get_stream, Stream)
    get_or_create_stream = wrapped(AsyncManager.get_or_create_stream, Stream)
    create_or_update_stream = wrapped(AsyncManager.create_or_update_stream, Stream)

    @documented_as(AsyncManager.stream)
    def stream(self, name: str) -> Stream:
        """As `jetarrow.js.manager.JetStreamManager.stream`; the handle blocks."""
        return Stream(self._inner.stream(name))

    @documented_as(AsyncManager.advisories)
    def advisories(
        self,
        stream: str | None = None,
        kinds: AdvisoryKind | str | Iterable[AdvisoryKind | str] | None = None,
    ) -> Advisories:
        """As `jetarrow.js.manager.JetStreamManager.advisories`: iterate it with `for`."""
        return Advisories(self._inner.advisories(stream, kinds))
