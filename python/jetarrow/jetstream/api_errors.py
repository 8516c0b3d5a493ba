"""JetStream's base error and the errors of server responses. Public as `jetarrow.js.errors`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

import jetarrow.core.errors as core

# Advice for frequent errors of the server, by err_code.
_ADVICE = {
    10014: "check the names of stream and consumer; an ephemeral consumer is removed after inactive_threshold",
    10037: "it was deleted, has expired, or does not exist yet",
    10039: "enable JetStream for this account, or connect with another one",
    10058: "use update_stream to change it, or another name",
    10059: "check the name and the domain, or create it with add_stream",
    10060: "the subject is stored by another stream than the expected one",
    10065: "another stream stores these subjects; find it with find_stream_name_by_subject",
    10071: "another publisher stored a message first: read the last sequence again, then retry",
    10076: "start the server with JetStream: nats-server -js",
}


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
        message: The failed operation, to which the server's response is added. Default: none.
    """

    _code: ClassVar[int | None] = None

    code: int | None
    err_code: int | None
    stream: str | None
    seq: int | None

    def __init__(
        self,
        code: int | None = None,
        description: str | None = None,
        err_code: int | None = None,
        stream: str | None = None,
        seq: int | None = None,
        *,
        message: str | None = None,
    ) -> None:
        self._set_message(message)
        self.code = self._code if code is None else code
        self.err_code = err_code
        self.description = description
        self.stream = stream
        self.seq = seq

    @classmethod
    def build(cls, err: Mapping[str, Any], *, message: str | None = None) -> APIError:
        """Create the error of the `error` object of a server's response.

        Args:
            err: The object: `code`, `err_code` and `description`; other fields are ignored.
            message: The failed operation. Default: none.

        Returns:
            The error, of the subclass for the code (NotFoundError for 404, and so on). It is not raised.
        """
        code = err.get("code")
        kind: type[APIError] = _BY_CODE.get(code, APIError)
        if kind is BadRequestError and err.get("err_code") == 10204:
            kind = ConsumerInvalidResetError
        known = {name: err.get(name) for name in ("description", "err_code", "stream", "seq")}
        return kind(code, **known, message=message)

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
        if self.stream is not None:
            text += f" stream={self.stream!r}"
        if self.seq is not None:
            text += f" seq={self.seq}"
        return text

    def __str__(self) -> str:
        text = super().__str__()
        if self.message and not (self.code is None and self.description is None):
            text += f" ({self._answer()})"
        advice = _ADVICE.get(self.err_code or 0)
        return f"{text}; {advice}" if advice else text


class ServiceUnavailableError(APIError):
    """503: JetStream is not enabled, or has no leader now."""

    _code = 503


class ServerError(APIError):
    """500: the server failed to execute the request."""

    _code = 500


class NotFoundError(APIError):
    """404: the stream, consumer or message does not exist."""

    _code = 404
    # The nearest existing name, if it was looked up.
    _nearest: str | None = None


class BadRequestError(APIError):
    """400: the server rejects the request."""

    _code = 400


class ConsumerInvalidResetError(BadRequestError):
    """err_code 10204: the consumer's `deliver_policy` does not allow a reset to this sequence."""


_BY_CODE: dict[Any, type[APIError]] = {
    400: BadRequestError,
    404: NotFoundError,
    500: ServerError,
    503: ServiceUnavailableError,
}
