"""Client: core NATS and JetStream."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, Unpack, cast

from jetarrow.core.client import CoreClient

if TYPE_CHECKING:
    from jetarrow.jetstream.context import JetStreamContext
    from jetarrow.jetstream.manager import JetStreamManager
    from jetarrow.jetstream.option_types import JetStreamOptions, ManagerOptions

    _Options = TypeVar("_Options", JetStreamOptions, ManagerOptions)


class Client(CoreClient):
    """A connection to NATS, shared by the objects that it creates.

    Create one with `jetarrow.connect`, or with `Client()` and `await nc.connect(...)`. Use it with `async with`, or
    call `close()` at the end.
    """

    def jetstream(self, **options: Unpack[JetStreamOptions]) -> JetStreamContext:
        """Returns a JetStream context on this connection. Makes no request.

        Args:
            prefix: First tokens of the API's subjects, default `$JS.API`.
            api_prefix: Alias of `prefix`.
            domain: JetStream domain, instead of a prefix.
            timeout: Maximum seconds of an API request or a `publish`, default 5; None has no limit.
            publish_async_max_pending: Maximum unacknowledged messages of `publish` and `publish_async`. Default None:
                the window that the connection sustains, at least 5000.
            max_ack_inflight: Alias of `publish_async_max_pending`.
            backpressure_on_inflight: True: `publish_async` waits at that limit. False: it raises `MaxAckPendingError`.
                Default: True.
            ack_timeout: Seconds after which a `publish_async` without an ack fails, default 30.
            **options: The options above, by name.

        Raises:
            BadSubjectError: `prefix` is not a valid subject prefix.
            ValueError: `domain` is not one token.
            TypeError: An unknown option, or both `prefix` and `domain`.
        """
        from jetarrow.jetstream.context import JetStreamContext

        return JetStreamContext(self, **self._with_context_options(options))

    def jsm(self, **options: Unpack[ManagerOptions]) -> JetStreamManager:
        """Returns a JetStream manager on this connection. Makes no request.

        Args:
            prefix: As `jetstream`.
            timeout: As `jetstream`.
            domain: As `jetstream`.
            api_prefix: As `jetstream`.
            **options: The options above, by name.
        """
        from jetarrow.jetstream.manager import JetStreamManager

        return JetStreamManager(self, **self._with_context_options(options))

    def _with_context_options(self, options: _Options) -> _Options:
        """Adds the JetStream options of the context file, unless the call has a prefix or a domain."""
        if options.keys() & {"prefix", "api_prefix", "domain"}:
            return options
        return cast("_Options", {**self._session.jetstream_options, **options})

    async def jetstream_manager(
        self, /, check_api: bool = True, **options: Unpack[JetStreamOptions]
    ) -> JetStreamContext:
        """As `jetstream`, after a check that JetStream is available.

        Args:
            check_api: Requests the account information first; False makes no request. Default: True.
            **options: As `jetstream`.

        Raises:
            ServiceUnavailableError: JetStream is not enabled on the server or for the account.
            TypeError: As `jetstream`.
        """
        js = self.jetstream(**options)
        if check_api:
            await js.account_info(totals=False)
        return js
