"""The client: core NATS, and JetStream on top."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, Unpack, cast

from jetarrow.core.client import CoreClient

if TYPE_CHECKING:
    from jetarrow.jetstream.context import JetStreamContext
    from jetarrow.jetstream.manager import JetStreamManager
    from jetarrow.jetstream.option_types import JetStreamOptions, ManagerOptions

    _Options = TypeVar("_Options", JetStreamOptions, ManagerOptions)


class Client(CoreClient):
    """A connection to NATS, shared by everything that is made from it.

    Make one with `jetarrow.connect`, or with `Client()` and then `await nc.connect(...)`. Use it with `async with`, or
    call `close()` at the end.
    """

    def jetstream(self, **options: Unpack[JetStreamOptions]) -> JetStreamContext:
        """A JetStream context on this connection. No request is made.

        Args:
            prefix: First tokens of the API's subjects, default `$JS.API`.
            api_prefix: Another name for `prefix`.
            domain: JetStream domain, instead of a prefix.
            timeout: Seconds an API request, or a `publish`, may take, default 5; None is as long as it takes.
            publish_async_max_pending: Most unanswered messages of `publish` and `publish_async` together; default None,
                as many as the way to the server carries, and at least 5000.
            max_ack_inflight: Another name for `publish_async_max_pending`.
            backpressure_on_inflight: At that limit `publish_async` waits; False raises `MaxAckPendingError`.
            ack_timeout: Seconds until a `publish_async` without an answer fails, default 30.
            **options: The options above, all by name.

        Raises:
            BadSubjectError: `prefix` cannot begin a subject.
            ValueError: `domain` is not one token.
            TypeError: Unknown option, or both `prefix` and `domain`.
        """
        from jetarrow.jetstream.context import JetStreamContext

        return JetStreamContext(self, **self._with_context_options(options))

    def jsm(self, **options: Unpack[ManagerOptions]) -> JetStreamManager:
        """Management of JetStream on this connection. No request is made.

        Args:
            prefix: As `jetstream`.
            timeout: As `jetstream`.
            domain: As `jetstream`.
            api_prefix: As `jetstream`.
            **options: The options above, all by name.
        """
        from jetarrow.jetstream.manager import JetStreamManager

        return JetStreamManager(self, **self._with_context_options(options))

    def _with_context_options(self, options: _Options) -> _Options:
        """With what the context file of `connect` says, unless the call says where JetStream is."""
        if options.keys() & {"prefix", "api_prefix", "domain"}:
            return options
        return cast("_Options", {**self._session.jetstream_options, **options})

    async def jetstream_manager(
        self, /, check_api: bool = True, **options: Unpack[JetStreamOptions]
    ) -> JetStreamContext:
        """As `jetstream`, once it is sure that JetStream answers.

        Args:
            check_api: Ask for the account's information first; False makes no request.
            **options: As `jetstream`.

        Raises:
            ServiceUnavailableError: JetStream is off, or not enabled for the account.
            TypeError: As `jetstream`.
        """
        js = self.jetstream(**options)
        if check_api:
            await js.account_info(totals=False)
        return js
