"""Client: core NATS and JetStream."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, Unpack, cast

from jetarrow.core.client import CoreClient

if TYPE_CHECKING:
    from jetarrow.core.session import Headers
    from jetarrow.jetstream.context import JetStreamContext
    from jetarrow.jetstream.manager import JetStreamManager
    from jetarrow.jetstream.option_types import JetStreamOptions, ManagerOptions
    from jetarrow.system.option_types import SystemOptions
    from jetarrow.system.system import System
    from jetarrow.system.trace import Trace

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
            prefix: First tokens of the API's subjects, default `$JS.API`.
            timeout: Maximum seconds of an API request, default 5; None has no limit.
            domain: JetStream domain, instead of a prefix.
            api_prefix: Alias of `prefix`.
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
        """Returns a JetStream context on this connection, after a check that JetStream is available.

        Args:
            check_api: Requests the account information first; False makes no request. Default: True.
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
            ServiceUnavailableError: JetStream is not enabled on the server or for the account.
            BadSubjectError: `prefix` is not a valid subject prefix.
            ValueError: `domain` is not one token.
            TypeError: An unknown option, or both `prefix` and `domain`.
        """
        js = self.jetstream(**options)
        if check_api:
            await js.account_info(totals=False)
        return js

    def system(self, **options: Unpack[SystemOptions]) -> System:
        """Returns the requests to the servers themselves, for a user of the system account. Makes no request.

        Args:
            timeout: Maximum seconds of a request, default 5.
            stall: Maximum seconds between two answers of servers, default 0.5. If a server does not answer, a request
                to all servers ends so long after the last answer.
            **options: The options above, by name.

        Raises:
            ValueError: A number is not positive.
            TypeError: An unknown option.
        """
        from jetarrow.core.suggestions import check_keywords
        from jetarrow.system.system import System

        check_keywords("system", options, ("timeout", "stall"))
        return System(self._session, **options)

    async def trace(
        self,
        subject: str,
        payload: bytes | str = b"",
        *,
        headers: Headers | None = None,
        deliver: bool = False,
        timeout: float = 2.0,
    ) -> Trace:
        """Traces the way of a message through the servers (ADR-41). Server 2.11 or later.

        The servers report where the message came in, each connection, stream, import and mapping that it matched, and
        why it was not delivered. By default the message is delivered to no subscription and stored in no stream.

        Args:
            subject: The subject of the message.
            payload: Bytes-like, or str, which is sent as UTF-8.
            headers: Value, or list of values, by header name.
            deliver: Whether to deliver and store the message as well.
            timeout: Maximum seconds. The call ends earlier when each server that the message was forwarded to has
                reported, or 0.8 s after the last report. If a report is missing, a message that is not to be delivered
                is sent once more.

        Returns:
            The events. If a server did not report in time, `is_complete` is False and `missing` has its hop.

        Raises:
            UnsupportedError: The server is older than 2.11, and would deliver the message; it was not sent.
            PermissionsViolationError: The user may not publish to its own inboxes, which receive the events.
            TimeoutError: No server reported anything.
            BadSubjectError: The subject is invalid; the message was not sent.
            BadHeaderError: A header is invalid; the message was not sent.
            MaxPayloadError: Message and headers exceed the server's `max_payload`; the message was not sent.
            ConnectionClosedError: The connection is closed.
            ConnectionDrainingError: The connection is draining.
            ValueError: `timeout` is not positive, or `headers` has a header of traces.
        """
        from jetarrow.system.trace_request import trace

        return await trace(self._session, subject, payload, headers=headers, deliver=deliver, timeout=timeout)
