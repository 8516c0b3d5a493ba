"""Requests of the JetStream API."""

from __future__ import annotations

import json
import logging
import uuid
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, cast, overload

from jetarrow.nats.client.errors import NoRespondersError
from jetarrow.nats.jetstream.api import types
from jetarrow.nats.jetstream.api.responses import _error_from_response, check_response, is_error_response
from jetarrow.nats.jetstream.errors import (
    ConsumerInvalidResetError,
    ConsumerNotFoundError,
    ErrorCode,
    JetStreamError,
    JetStreamNotEnabledError,
    JetStreamNotEnabledForAccountError,
    MaximumConsumersLimitError,
    MessageNotFoundError,
    StreamNameAlreadyInUseError,
    StreamNotFoundError,
)

if TYPE_CHECKING:
    from jetarrow.nats.client import Client as NatsClient

_T = TypeVar("_T")

# The name of the reference's logger, so that an existing logging configuration applies.
logger = logging.getLogger("nats.jetstream.api")

__all__ = ["Client", "_error_from_response", "check_response", "is_error_response"]


class Client:
    """Sends requests of the JetStream API and returns the decoded responses.

    Every method raises `JetStreamError` for an error of the server, `NoRespondersError` if JetStream does not respond
    (except `account_info`), and TimeoutError after 5 seconds.

    Args:
        client: The NATS client.
        prefix: First tokens of the API's subjects. Default: `$JS.API`.
        validate_response: Compares the keys of responses with the schema, and logs a warning if they differ.
        raise_on_missing_keys: With `validate_response`, raises ValueError for a missing key.
        raise_on_unknown_keys: With `validate_response`, raises ValueError for an unknown key.
    """

    def __init__(
        self,
        client: NatsClient,
        prefix: str = "$JS.API",
        validate_response: bool = False,
        raise_on_missing_keys: bool = False,
        raise_on_unknown_keys: bool = False,
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._validate_response = validate_response
        self._raise_on_missing_keys = raise_on_missing_keys
        self._raise_on_unknown_keys = raise_on_unknown_keys

    async def account_info(self) -> types.AccountInfoResponse:
        """Requests the usage and limits of the account.

        Raises:
            JetStreamNotEnabledError: JetStream is not enabled on the server.
            JetStreamNotEnabledForAccountError: JetStream is not enabled for the account.
        """
        classes = (JetStreamNotEnabledError, JetStreamNotEnabledForAccountError)
        try:
            return await self._send("INFO", None, types.AccountInfoResponse, *classes)
        except NoRespondersError as error:
            raise JetStreamNotEnabledError(
                "JetStream not enabled", code=503, error_code=ErrorCode.JETSTREAM_NOT_ENABLED
            ) from error

    async def consumer_create(
        self, stream_name: str, consumer_name: str, /, **request: Unpack[types.ConsumerCreateRequest]
    ) -> types.ConsumerCreateResponse:
        """Creates or updates a consumer, as `action` requests.

        Raises:
            StreamNotFoundError: The stream does not exist.
            MaximumConsumersLimitError: The limit of consumers is reached.
        """
        verb = f"CONSUMER.CREATE.{stream_name}.{consumer_name}"
        classes = (StreamNotFoundError, MaximumConsumersLimitError)
        return await self._send(verb, request, types.ConsumerCreateResponse, *classes)

    async def consumer_delete(self, stream_name: str, consumer_name: str, /) -> types.ConsumerDeleteResponse:
        """Deletes a consumer.

        Raises:
            ConsumerNotFoundError: The consumer does not exist.
        """
        verb = f"CONSUMER.DELETE.{stream_name}.{consumer_name}"
        return await self._send(verb, None, types.ConsumerDeleteResponse, ConsumerNotFoundError)

    async def consumer_info(self, stream_name: str, consumer_name: str, /) -> types.ConsumerInfoResponse:
        """Requests a consumer's configuration and state.

        Raises:
            ConsumerNotFoundError: The consumer does not exist.
        """
        verb = f"CONSUMER.INFO.{stream_name}.{consumer_name}"
        return await self._send(verb, None, types.ConsumerInfoResponse, ConsumerNotFoundError)

    async def consumer_list(
        self, stream_name: str, /, **request: Unpack[types.ConsumerListRequest]
    ) -> types.ConsumerListResponse:
        """Requests a page of the consumers of a stream."""
        return await self._send(f"CONSUMER.LIST.{stream_name}", request or None, types.ConsumerListResponse)

    async def consumer_names(
        self, stream_name: str, /, **request: Unpack[types.ConsumerNamesRequest]
    ) -> types.ConsumerNamesResponse:
        """Requests a page of the names of the consumers of a stream."""
        return await self._send(f"CONSUMER.NAMES.{stream_name}", request or None, types.ConsumerNamesResponse)

    async def consumer_pause(
        self, stream_name: str, consumer_name: str, /, **request: Unpack[types.ConsumerPauseRequest]
    ) -> types.ConsumerPauseResponse:
        """Pauses a consumer until `pause_until`, or resumes it.

        Raises:
            ConsumerNotFoundError: The consumer does not exist.
        """
        verb = f"CONSUMER.PAUSE.{stream_name}.{consumer_name}"
        return await self._send(verb, request or None, types.ConsumerPauseResponse, ConsumerNotFoundError)

    async def consumer_reset(
        self, stream_name: str, consumer_name: str, /, **request: Unpack[types.ConsumerResetRequest]
    ) -> types.ConsumerResetResponse:
        """Resets the delivery state of a consumer (ADR-60).

        Raises:
            ConsumerNotFoundError: The consumer does not exist.
            ConsumerInvalidResetError: `seq` contradicts the deliver policy.
        """
        verb = f"CONSUMER.RESET.{stream_name}.{consumer_name}"
        classes = (ConsumerNotFoundError, ConsumerInvalidResetError)
        return await self._send(verb, request or None, types.ConsumerResetResponse, *classes)

    async def stream_create(
        self, name: str, /, **request: Unpack[types.StreamCreateRequest]
    ) -> types.StreamCreateResponse:
        """Creates a stream.

        Raises:
            StreamNameAlreadyInUseError: A stream with this name and another configuration exists.
        """
        verb = f"STREAM.CREATE.{name}"
        return await self._send(verb, request, types.StreamCreateResponse, StreamNameAlreadyInUseError)

    async def stream_delete(self, name: str, /) -> types.StreamDeleteResponse:
        """Deletes a stream.

        Raises:
            StreamNotFoundError: The stream does not exist.
        """
        return await self._send(f"STREAM.DELETE.{name}", None, types.StreamDeleteResponse, StreamNotFoundError)

    async def stream_info(self, name: str, /, **request: Unpack[types.StreamInfoRequest]) -> types.StreamInfoResponse:
        """Requests a stream's configuration and state.

        Raises:
            StreamNotFoundError: The stream does not exist.
        """
        return await self._send(f"STREAM.INFO.{name}", request or None, types.StreamInfoResponse, StreamNotFoundError)

    async def stream_list(self, **request: Unpack[types.StreamListRequest]) -> types.StreamListResponse:
        """Requests a page of the streams, of those with a subject if `subject` is given."""
        return await self._send("STREAM.LIST", request or None, types.StreamListResponse)

    async def stream_msg_delete(
        self, name: str, /, **request: Unpack[types.StreamMsgDeleteRequest]
    ) -> types.StreamMsgDeleteResponse:
        """Removes a message."""
        return await self._send(f"STREAM.MSG.DELETE.{name}", request or None, types.StreamMsgDeleteResponse)

    async def stream_msg_get(
        self, name: str, /, **request: Unpack[types.StreamMsgGetRequest]
    ) -> types.StreamMsgGetResponse:
        """Requests a message by sequence or by subject.

        Raises:
            MessageNotFoundError: The message does not exist.
        """
        verb = f"STREAM.MSG.GET.{name}"
        return await self._send(verb, request or None, types.StreamMsgGetResponse, MessageNotFoundError)

    async def stream_names(self, **request: Unpack[types.StreamNamesRequest]) -> types.StreamNamesResponse:
        """Requests a page of the names of the streams, of those with a subject if `subject` is given."""
        return await self._send("STREAM.NAMES", request or None, types.StreamNamesResponse)

    async def stream_purge(
        self, name: str, /, **request: Unpack[types.StreamPurgeRequest]
    ) -> types.StreamPurgeResponse:
        """Removes messages of a stream."""
        return await self._send(f"STREAM.PURGE.{name}", request or None, types.StreamPurgeResponse)

    async def stream_update(
        self, name: str, /, **request: Unpack[types.StreamUpdateRequest]
    ) -> types.StreamUpdateResponse:
        """Replaces the configuration of a stream.

        Raises:
            StreamNotFoundError: The stream does not exist.
        """
        return await self._send(f"STREAM.UPDATE.{name}", request, types.StreamUpdateResponse, StreamNotFoundError)

    @overload
    async def request_json(
        self,
        subject: str,
        payload: Any | None = None,
        *,
        response_type: type[_T],
        raise_on_error: Literal[True] = True,
        timeout: float = 5.0,
    ) -> _T: ...

    @overload
    async def request_json(
        self,
        subject: str,
        payload: Any | None = None,
        *,
        response_type: type[_T],
        raise_on_error: bool,
        timeout: float = 5.0,
    ) -> _T | types.ErrorResponse: ...

    async def request_json(
        self,
        subject: str,
        payload: Any | None = None,
        *,
        response_type: type[_T],
        raise_on_error: bool = True,
        timeout: float = 5.0,
    ) -> _T | types.ErrorResponse:
        """Sends a request and returns the decoded response.

        Args:
            subject: The full subject.
            payload: A value for JSON. Default: None, an empty payload.
            response_type: The TypedDict of the response.
            raise_on_error: Raises the server's errors; False returns their objects. Default: True.
            timeout: Seconds to wait for the response, default 5.

        Raises:
            JetStreamError: The server reports an error.
            NoRespondersError: JetStream does not respond.
            TimeoutError: No response in time.
            ValueError: The keys of the response are not those of the schema, if the client raises for them.
        """
        data = await self._exchange(subject, payload, response_type, timeout)
        if raise_on_error and is_error_response(data):
            raise _error_from_response(data["error"])
        return cast("_T", data)

    async def _send(self, verb: str, payload: Any, response_type: type[_T], *classes: type[JetStreamError]) -> _T:
        """Sends a request below the prefix, and raises errors of the given classes."""
        data = await self._exchange(f"{self._prefix}.{verb}", payload, response_type, 5.0)
        if is_error_response(data):
            raise _error_from_response(data["error"], classes=classes)
        return cast("_T", data)

    async def _exchange(self, subject: str, payload: Any, response_type: type[Any], timeout: float) -> Any:
        request_id = uuid.uuid4().hex[:8]
        encoded = b"" if payload is None else json.dumps(payload).encode()
        logger.debug("[%s] request: %s %r", request_id, subject, encoded)
        response = await self._client.request(subject, encoded, timeout=timeout)
        data = json.loads(response.data)
        logger.debug("[%s] response: %r", request_id, data)
        if self._validate_response and not is_error_response(data):
            self._validate(data, response_type, request_id)
        return data

    def _validate(self, data: Any, response_type: type[Any], request_id: str) -> None:
        is_valid, unknown, missing = check_response(data, response_type)
        for keys, kind, is_error in (
            (missing, "Missing required", self._raise_on_missing_keys),
            (unknown, "Unknown", self._raise_on_unknown_keys),
        ):
            if keys and is_error:
                raise ValueError(f"{kind} keys in response: {keys}")
            if keys:
                logger.warning("[%s] %s keys in response: %s", request_id, kind, keys)
        if not (is_valid or unknown or missing):
            logger.warning("[%s] Expected %s, got %s", request_id, response_type.__name__, type(data).__name__)
