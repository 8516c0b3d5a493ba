"""The class `Connection`. Its verbs are in the stubs of their native modules."""

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
        options: All options by name, checked and completed by `jetarrow.core.options`.
        notices: Receives the connection's events; None in `jetarrow.sync`, which reports none.

    Returns:
        A call for the connection.

    Raises:
        ValueError: An option has an invalid value.
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
        """Flush the outbox and close the connection.

        Args:
            hurry: Do not wait for a slow server. Default: False.
        """
