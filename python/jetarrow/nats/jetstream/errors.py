"""Errors of JetStream, and the server's error codes."""

from __future__ import annotations

from typing import Final


class ErrorCode:
    """Error codes of the JetStream API (`err_code` of the server's error objects)."""

    CONSUMER_NOT_FOUND: Final = 10014
    MAXIMUM_CONSUMERS_LIMIT: Final = 10026
    MESSAGE_NOT_FOUND: Final = 10037
    JETSTREAM_NOT_ENABLED_FOR_ACCOUNT: Final = 10039
    STREAM_NAME_IN_USE: Final = 10058
    STREAM_NOT_FOUND: Final = 10059
    JETSTREAM_NOT_ENABLED: Final = 10076
    CONSUMER_INVALID_RESET: Final = 10204
    MIRROR_DURABLE_CONSUMER_CFG_INVALID: Final = 10213
    MIRROR_CONSUMER_REQUIRES_ACK_FC: Final = 10214
    SOURCE_DURABLE_CONSUMER_CFG_INVALID: Final = 10215
    SOURCE_DURABLE_CONSUMER_DUPLICATE_DETECTED: Final = 10216
    SOURCE_CONSUMER_REQUIRES_ACK_FC: Final = 10217
    CONSUMER_ACK_FC_REQUIRES_PUSH: Final = 10218
    CONSUMER_ACK_FC_REQUIRES_FC: Final = 10219
    CONSUMER_ACK_FC_REQUIRES_MAX_ACK_PENDING: Final = 10220
    CONSUMER_ACK_FC_REQUIRES_NO_ACK_WAIT: Final = 10221
    CONSUMER_ACK_FC_REQUIRES_NO_MAX_DELIVER: Final = 10222
    MIRROR_WITH_MSG_SCHEDULES: Final = 10186
    SOURCE_WITH_MSG_SCHEDULES: Final = 10187
    MESSAGE_SCHEDULES_DISABLED: Final = 10188
    SCHEDULE_PATTERN_INVALID: Final = 10189
    SCHEDULE_TARGET_INVALID: Final = 10190
    SCHEDULE_TTL_INVALID: Final = 10191
    SCHEDULE_ROLLUP_INVALID: Final = 10192
    SCHEDULE_SOURCE_INVALID: Final = 10203
    MESSAGE_SCHEDULES_SCHEDULER_INVALID: Final = 10212
    MESSAGE_SCHEDULES_TIME_ZONE_INVALID: Final = 10223


class JetStreamError(Exception):
    """Base of the errors of JetStream.

    Attributes:
        code: Status of the response, as in HTTP; None if the error is not the server's.
        error_code: The server's error code, see `ErrorCode`; None if the error is not the server's.
        description: The server's description.
    """

    def __init__(
        self, message: str, code: int | None = None, error_code: int | None = None, description: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.error_code = error_code
        self.description = description


class StreamNotFoundError(JetStreamError):
    """The stream does not exist (10059)."""


class StreamNameAlreadyInUseError(JetStreamError):
    """A stream with this name and another configuration exists (10058)."""


class ConsumerNotFoundError(JetStreamError):
    """The consumer does not exist (10014)."""


class JetStreamNotEnabledError(JetStreamError):
    """JetStream is not enabled on the server (10076)."""


class JetStreamNotEnabledForAccountError(JetStreamError):
    """JetStream is not enabled for the account (10039)."""


class ConsumerDeletedError(JetStreamError):
    """The consumer was deleted during a request."""


class MaximumConsumersLimitError(JetStreamError):
    """The limit of consumers is reached (10026)."""


class MessageNotFoundError(JetStreamError):
    """The message does not exist (10037)."""


class OrderedConsumerClosedError(JetStreamError):
    """The ordered consumer is closed."""


class OrderedConsumerResetError(JetStreamError):
    """The ordered consumer could not be created again after a failure."""


class ConsumerInvalidResetError(JetStreamError):
    """The sequence of a reset contradicts the consumer's deliver policy (10204)."""
