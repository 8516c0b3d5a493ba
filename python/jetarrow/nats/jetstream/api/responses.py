"""Errors in responses, and comparison with the schema. Public as `jetarrow.nats.jetstream.api.client`."""

from __future__ import annotations

from typing import Any, TypeGuard

from jetarrow.nats.jetstream.api import types
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

_ERROR_CODES: dict[type[JetStreamError], int] = {
    ConsumerInvalidResetError: ErrorCode.CONSUMER_INVALID_RESET,
    ConsumerNotFoundError: ErrorCode.CONSUMER_NOT_FOUND,
    JetStreamNotEnabledError: ErrorCode.JETSTREAM_NOT_ENABLED,
    JetStreamNotEnabledForAccountError: ErrorCode.JETSTREAM_NOT_ENABLED_FOR_ACCOUNT,
    MaximumConsumersLimitError: ErrorCode.MAXIMUM_CONSUMERS_LIMIT,
    MessageNotFoundError: ErrorCode.MESSAGE_NOT_FOUND,
    StreamNameAlreadyInUseError: ErrorCode.STREAM_NAME_IN_USE,
    StreamNotFoundError: ErrorCode.STREAM_NOT_FOUND,
}


def _error_from_response(
    error: types.Error, *, strict: bool = False, classes: tuple[type[JetStreamError], ...] = ()
) -> JetStreamError:
    """Makes an exception of the server's error object.

    Args:
        error: The error object; it is not changed.
        strict: Raises ValueError for unknown keys. Default: False.
        classes: Classes of errors that the request distinguishes; of other errors the class is `JetStreamError`.
    """
    if strict and (unknown := [key for key in error if key not in ("description", "code", "err_code")]):
        raise ValueError(f"Error.from_response() has unconsumed fields: {unknown}")
    description, code = error.get("description", "Unknown error"), error.get("err_code")
    kind = next((kind for kind in classes if _ERROR_CODES[kind] == code), JetStreamError)
    return kind(description, code=error.get("code"), error_code=code, description=description)


def is_error_response(data: Any) -> TypeGuard[types.ErrorResponse]:
    """Whether a decoded response reports an error."""
    return isinstance(data, dict) and "error" in data


def check_response(data: Any, expected_type: type[Any]) -> tuple[bool, set[str], set[str]]:
    """Compares the keys of a decoded response with those of a TypedDict.

    Returns:
        Whether they agree, the unknown keys, and the missing keys.
    """
    if not isinstance(data, dict):
        return False, set(), set()
    expected, actual = set(expected_type.__annotations__), set(data)
    required = set(getattr(expected_type, "__required_keys__", expected))
    unknown, missing = actual - expected, required - actual
    return not unknown and not missing, unknown, missing
