"""A connection: its verbs are where the native module has them."""

from collections.abc import Mapping
from typing import final

from jetarrow._native.ack import AckVerbs
from jetarrow._native.call import Call
from jetarrow._native.entry import EntryVerbs
from jetarrow._native.fetch import FetchVerbs
from jetarrow._native.notices import Notices
from jetarrow._native.outbox import OutboxVerbs
from jetarrow._native.publish import PublishVerbs
from jetarrow._native.publisher import PublisherVerbs
from jetarrow._native.read import ReadVerbs
from jetarrow._native.request import RequestVerbs
from jetarrow._native.status import StatusVerbs
from jetarrow._native.subscribe import SubscribeVerbs

def connect(options: Mapping[str, object], notices: Notices | None) -> Call[Connection]:
    """Open a connection.

    Args:
        options: Every option by its name, as `jetarrow.core.options` checks and completes them.
        notices: Takes the connection's events; None in `jetarrow.sync`, where none are reported.

    Returns:
        A call for the connection.

    Raises:
        ValueError: An option has a wrong value.
        TypeError: An option has a wrong type.
    """

@final
class Connection(
    AckVerbs,
    EntryVerbs,
    FetchVerbs,
    OutboxVerbs,
    PublishVerbs,
    PublisherVerbs,
    ReadVerbs,
    RequestVerbs,
    StatusVerbs,
    SubscribeVerbs,
):
    """A connection, its state and its verbs."""

    def close(self, hurry: bool = False) -> Call[None]:
        """Send what is queued and end the connection.

        Args:
            hurry: Do not wait for a server that is slow. Default: False.
        """
