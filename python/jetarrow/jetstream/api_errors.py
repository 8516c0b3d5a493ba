"""JetStream's base error and the errors that the server answers with. Public as `jetarrow.js.errors`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

import jetarrow.core.errors as core

# What to do about the server's more frequent refusals, by err_code.
_ADVICE = {
    10014: "check the names of stream and consumer; an ephemeral consumer is gone after inactive_threshold",
    10037: "it was deleted, has expired, or was never stored",
    10039: "enable JetStream for this account, or connect with another one",
    10058: "use update_stream to change it, or another name",
    10059: "check the name and the domain, or create it with add_stream",
    10060: "the subject belongs to another stream than the one expected",
    10065: "another stream takes these subjects already; list it with find_stream_name_by_subject",
    10071: "another publisher was faster: read the last sequence again, then retry",
    10076: "start the server with JetStream: nats-server -js",
}


class Error(core.Error):
    """The base of every JetStream error.

    Args:
        description: What happened, in words. Default: a text that fits the class.
    """

    _default: ClassVar[str] = "the JetStream operation failed"

    description: str | None

    def __init__(self, description: str | None = None) -> None:
        self._set_message(description)
        self.description = self.message


class APIError(Error):
    """The server answered a JetStream request with an error.

    Args:
        code: The HTTP-like status, for example 404. Default: the one that the class stands for, else None.
        description: The server's own words. Default: None.
        err_code: The server's number for exactly this error, for example 10059. Default: None.
        stream: The stream concerned, where the server names it. Default: None.
        seq: The sequence concerned, where the server names it. Default: None.
        message: What was attempted; the server's answer is added to it. Default: none.
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
        """Make the error that fits the `error` object of a server's answer.

        Args:
            err: The object: `code`, `err_code` and `description`; anything else in it is ignored.
            message: What was attempted. Default: none.

        Returns:
            The error, of the subclass for the code (404 is NotFoundError, and so on), not raised.
        """
        code = err.get("code")
        kind: type[APIError] = _BY_CODE.get(code, APIError)
        if kind is BadRequestError and err.get("err_code") == 10204:
            kind = ConsumerInvalidResetError
        known = {name: err.get(name) for name in ("description", "err_code", "stream", "seq")}
        return kind(code, **known, message=message)

    @classmethod
    def from_error(cls, err: Mapping[str, Any]) -> NoReturn:
        """Raise what `build` makes of the `error` object of a server's answer, as nats-py does.

        Args:
            err: The object: `code`, `err_code` and `description`.

        Raises:
            APIError: Always; of the subclass for the code.
        """
        raise cls.build(err)

    @classmethod
    def from_msg(cls, msg: Any) -> NoReturn:
        """Raise the error that a status message (headers `Status` and `Description`) stands for.

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
    """503: JetStream is not enabled, or has no leader at the moment."""

    _code = 503


class ServerError(APIError):
    """500: the server could not do it."""

    _code = 500


class NotFoundError(APIError):
    """404: no such stream, consumer or message."""

    _code = 404
    # The nearest name that there is, where it was looked for.
    _nearest: str | None = None


class BadRequestError(APIError):
    """400: the server does not accept the request as it is."""

    _code = 400


class ConsumerInvalidResetError(BadRequestError):
    """err_code 10204: the consumer's `deliver_policy` does not allow a reset to this sequence."""


_BY_CODE: dict[Any, type[APIError]] = {
    400: BadRequestError,
    404: NotFoundError,
    500: ServerError,
    503: ServiceUnavailableError,
}
