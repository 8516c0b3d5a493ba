"""The client: core NATS, and JetStream on top."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jetarrow.core.client import CoreClient

if TYPE_CHECKING:
    from jetarrow.jetstream.context import JetStreamContext
    from jetarrow.jetstream.manager import JetStreamManager


class Client(CoreClient):
    """A connection to NATS, shared by everything that is made from it.

    Make one with `jetarrow.connect`, or with `Client()` and then `await nc.connect(...)`. Use it with `async with`, or
    call `close()` at the end.
    """

    def jetstream(self, **options: Any) -> JetStreamContext:
        """A JetStream context on this connection. No request is made.

        Parameters:
            prefix (or api_prefix): first tokens of the API's subjects, default `$JS.API`.
            domain: JetStream domain, instead of a prefix.
            timeout: seconds an API request, or a `publish`, may take, default 5.
            publish_async_max_pending (or max_ack_inflight): most unanswered messages of `publish` and
                `publish_async` together, default 5000.
            backpressure_on_inflight: at that limit `publish_async` waits; False raises `MaxAckPendingError`.
            ack_timeout: seconds until a `publish_async` without an answer fails, default 30.

        Raises:
            TypeError: unknown option, or both `prefix` and `domain`.
        """
        from jetarrow.jetstream.context import JetStreamContext

        return JetStreamContext(self, **options)

    def jsm(self, **options: Any) -> JetStreamManager:
        """Management of JetStream on this connection. No request is made.

        Parameters:
            prefix, timeout: as `jetstream`.
        """
        from jetarrow.jetstream.manager import JetStreamManager

        return JetStreamManager(self, **options)

    async def jetstream_manager(self, /, check_api: bool = True, **options: Any) -> JetStreamContext:
        """As `jetstream`, once it is sure that JetStream answers.

        Parameters:
            check_api: ask for the account's information first; False makes no request.
            options: as `jetstream`.

        Raises:
            ServiceUnavailableError: JetStream is off, or not enabled for the account.
            TypeError: as `jetstream`.
        """
        js = self.jetstream(**options)
        if check_api:
            await js.account_info()
        return js
