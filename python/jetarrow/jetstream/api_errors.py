"""JetStream's base error and the errors of server responses. Public as `jetarrow.js.errors`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn, Self

import jetarrow.core.errors as core
from jetarrow.jetstream.remedies import remedy_of
from jetarrow.jetstream.remedies.messages import STORE_FAILED, STREAM_FULL


class Error(core.Error):
    """Base of all JetStream errors.

    Args:
        description: The text. Default: a text of the class.
    """

    _default: ClassVar[str] = "the JetStream operation failed"

    description: str | None

    def __init__(self, description: str | None = None) -> None:
        self._set_message(description)
        self.description = self.message


class APIError(Error):
    """Error response of the server to a JetStream request.

    Args:
        code: The HTTP-like status, for example 404. Default: that of the class, or None.
        description: The server's text. Default: None.
        err_code: The server's number of the error, for example 10059. Default: None.
        stream: The stream, if the server names it. Default: None.
        seq: The sequence, if the server names it. Default: None.
        message: The failed operation, to which the server's response and a remedy are added. Default: none.
        consumer: The consumer of the request. Default: None.
        subject: The subject of the message. Default: None.
    """

    _code: ClassVar[int | None] = None

    code: int | None
    err_code: int | None
    stream: str | None
    seq: int | None
    # Class attributes, because errors pickled by an older version lack them.
    consumer: str | None = None
    subject: str | None = None

    def __init__(
        self,
        code: int | None = None,
        description: str | None = None,
        err_code: int | None = None,
        stream: str | None = None,
        seq: int | None = None,
        *,
        message: str | None = None,
        consumer: str | None = None,
        subject: str | None = None,
    ) -> None:
        self._set_message(message)
        self.code = self._code if code is None else code
        self.err_code = err_code
        self.description = description
        self.stream = stream
        self.seq = seq
        self.consumer = consumer
        self.subject = subject

    @classmethod
    def build(cls, err: Mapping[str, Any], *, message: str | None = None) -> APIError:
        """Create the error of the `error` object of a server's response.

        Args:
            err: The object: `code`, `err_code` and `description`, and `stream`, `seq`, `consumer` and `subject` if they
                are known; other fields are ignored.
            message: The failed operation. Default: none.

        Returns:
            The error, of the subclass for `err_code` (StreamNotFoundError for 10059, and so on) or else for `code`
            (NotFoundError for 404). It is not raised.
        """
        code = err.get("code")
        kind = _class_of(code, err.get("err_code"), err.get("description"))
        known = {name: err.get(name) for name in _FIELDS}
        return kind(code, **known, message=message)

    def about(
        self, message: str, *, stream: str | None = None, consumer: str | None = None, subject: str | None = None
    ) -> Self:
        """This error, with the failed operation and the names of its objects that it does not have yet."""
        if self.message is None:
            self._set_message(message)
        self.stream = self.stream or stream
        self.consumer = self.consumer or consumer
        self.subject = self.subject or subject
        return self

    @classmethod
    def from_error(cls, err: Mapping[str, Any]) -> NoReturn:
        """Raise the error that `build` creates from the `error` object of a server's response, as nats-py does.

        Args:
            err: The object: `code`, `err_code` and `description`.

        Raises:
            APIError: Always; of the subclass for the code.
        """
        raise cls.build(err)

    @classmethod
    def from_msg(cls, msg: Any) -> NoReturn:
        """Raise the error of a status message (headers `Status` and `Description`).

        Args:
            msg: The status message.

        Raises:
            APIError: Always; ServiceUnavailableError for 503, plain APIError without headers.
        """
        header = msg.header or {}
        status = str(header.get("Status", ""))
        if status == "503":
            raise ServiceUnavailableError(description=header.get("Description"))
        raise APIError(int(status) if status.isdecimal() else None, header.get("Description"))

    def _describe(self) -> str:
        return f"{type(self).__name__}: {self._answer()}"

    def _answer(self) -> str:
        text = f"code={self.code} err_code={self.err_code} description={self.description!r}"
        # The operation may name them already.
        said = self.message or ""
        for name, value in (("stream", self.stream), ("consumer", self.consumer), ("subject", self.subject)):
            if value is not None and repr(value) not in said:
                text += f" {name}={value!r}"
        if self.seq is not None:
            text += f" seq={self.seq}"
        return text

    def __str__(self) -> str:
        text = super().__str__()
        if self.message and not (self.err_code is None and self.description is None):
            text += f" ({self._answer()})"
        remedy = self._remedy()
        return f"{text}; {remedy}" if remedy else text

    def _remedy(self) -> str | None:
        return remedy_of(self.err_code, self.description)


class ServiceUnavailableError(APIError):
    """503: the server cannot execute the request now; subclasses have frequent causes."""

    _code = 503


class JetStreamNotEnabledError(ServiceUnavailableError):
    """The server or the account has no JetStream (err_code 10035, 10039, 10076)."""


class StreamFullError(ServiceUnavailableError):
    """The stream has reached a limit and has `discard="new"`, so the message was not stored (err_code 10077).

    The limit is `max_msgs`, `max_bytes` or `max_msgs_per_subject`; the text names it.
    """


class ServerError(APIError):
    """500: the server failed to execute the request."""

    _code = 500


class NotFoundError(APIError):
    """404: the stream, consumer or message does not exist."""

    _code = 404
    # The nearest existing name, if it was looked up.
    _nearest: str | None = None


class StreamNotFoundError(NotFoundError):
    """The stream does not exist (err_code 10059), or no stream stores the subject (no err_code)."""


class ConsumerNotFoundError(NotFoundError):
    """The consumer does not exist (err_code 10014)."""


class MessageNotFoundError(NotFoundError):
    """The stream does not have the message (err_code 10037)."""


class BadRequestError(APIError):
    """400: the server rejects the request."""

    _code = 400


class StreamExistsError(BadRequestError):
    """A stream of this name exists with another configuration (err_code 10058)."""


class SubjectOverlapError(BadRequestError):
    """Another stream stores some of the subjects (err_code 10065)."""


class ConsumerExistsError(BadRequestError):
    """A consumer of this name exists with another configuration, or is active (err_code 10013, 10105, 10148)."""


class ConsumerInvalidResetError(BadRequestError):
    """err_code 10204: the consumer's `deliver_policy` does not allow a reset to this sequence."""


class MessageTooLargeError(BadRequestError):
    """The message exceeds `max_msg_size` of the stream, or its headers 64 KiB (err_code 10054, 10097).

    A message above the server's `max_payload` is a `jetarrow.errors.MaxPayloadError`.
    """


class WrongLastSequenceError(BadRequestError):
    """The last sequence or message id is not the expected one, so nothing was stored (err_code 10070, 10071, 10164)."""


class TooManyRequestsError(APIError):
    """429: the server has too many requests of this kind in progress; nothing was done."""

    _code = 429


# Fields of a response that `build` reads, beside its code.
_FIELDS = ("description", "err_code", "stream", "seq", "consumer", "subject")
_BY_CODE: dict[Any, type[APIError]] = {
    400: BadRequestError,
    404: NotFoundError,
    429: TooManyRequestsError,
    500: ServerError,
    503: ServiceUnavailableError,
}
_BY_ERR_CODE: dict[Any, type[APIError]] = {
    10013: ConsumerExistsError,
    10014: ConsumerNotFoundError,
    10035: JetStreamNotEnabledError,
    10037: MessageNotFoundError,
    10039: JetStreamNotEnabledError,
    10054: MessageTooLargeError,
    10058: StreamExistsError,
    10059: StreamNotFoundError,
    10065: SubjectOverlapError,
    10070: WrongLastSequenceError,
    10071: WrongLastSequenceError,
    10076: JetStreamNotEnabledError,
    10097: MessageTooLargeError,
    10105: ConsumerExistsError,
    10148: ConsumerExistsError,
    10164: WrongLastSequenceError,
    10204: ConsumerInvalidResetError,
}


def _class_of(code: Any, err_code: Any, description: Any) -> type[APIError]:
    """The class for the codes of a response; always a subclass of the one for its `code`, as in nats-py."""
    kind = _BY_CODE.get(code, APIError)
    if err_code == STORE_FAILED and description in STREAM_FULL:
        special: type[APIError] = StreamFullError
    else:
        special = _BY_ERR_CODE.get(err_code, kind)
    return special if special._code == code else kind
