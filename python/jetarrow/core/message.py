"""What is done with a message. The native classes hold what it says; `complete` sets these functions on them.

They are Python's own so that they are coroutine functions, for `inspect` and for mocks, and so that a program may
replace any of them in a subclass.
"""

from __future__ import annotations

import copyreg
import functools
from collections.abc import Coroutine
from dataclasses import dataclass, fields
from datetime import timedelta
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, SupportsIndex

from jetarrow.core import ack
from jetarrow.core.arguments import duration
from jetarrow.core.metadata import FIELDS

if TYPE_CHECKING:
    from enum import Enum

    from jetarrow._jetarrow import Msg, SyncMsg
    from jetarrow.core.metadata import Metadata

# Of a payload, what the text of a message shows.
MAX_SHOWN_PAYLOAD = 256


@dataclass
class Fields:
    """The fields of nats-py's message, which is a dataclass: for `replace`, `fields` and `match`."""

    _client: Any = None
    subject: str = ""
    reply: str = ""
    data: bytes = b""
    headers: dict[str, str] | None = None
    _metadata: Metadata | None = None
    _ackd: bool = False
    _sid: int | None = None


_NAMES = frozenset(field.name for field in fields(Fields))
# What cannot be written with nats-py either. Whatever else we have more than it, a program may have its own of.
_READ_ONLY = {"header", "is_acked", "metadata", "sid", "__dict__"}
# Sets the class of an object, also of one that passes for another.
_CLASS: Any = vars(object)["__class__"]


class AnyMessage(ack.Message):
    """What messages of both faces have."""

    def __init__(
        self,
        _client: Any = None,
        subject: str = "",
        reply: str = "",
        data: bytes = b"",
        headers: dict[str, str] | None = None,
        _metadata: Metadata | None = None,
        _ackd: bool = False,
        _sid: int | None = None,
    ) -> None:
        self._client = _client
        self.subject = subject
        self.reply = reply
        self.data = data
        self.headers = headers
        self._metadata = _metadata
        self._ackd = _ackd
        self._sid = _sid

    def __setattr__(self, name: str, value: object) -> None:
        try:
            object.__setattr__(self, name, value)
        except AttributeError:
            if name in _READ_ONLY:
                raise
            self._hang(name, value)
            _open(self, anew=not hasattr(type(self), name))

    def __delattr__(self, name: str) -> None:
        if name in vars(self) and name not in _NAMES:
            del vars(self)[name]
        else:
            object.__delattr__(self, name)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return copyreg.__newobj__, (self.__class__,), self.__getstate__()  # type: ignore[attr-defined]

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _NAMES)

    # As every dataclass whose fields can be written: equal ones would have to have equal hashes.
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        # A program may have put anything there.
        data: object = self.data
        said = repr(data)
        if isinstance(data, bytes | bytearray | str) and len(data) > MAX_SHOWN_PAYLOAD:
            said = f"{data[:MAX_SHOWN_PAYLOAD]!r}... ({len(data)} in all)"
        name = type(self).__qualname__
        return f"{name}(subject={self.subject!r}, reply={self.reply!r}, data={said}, headers={self.headers!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _NAMES} | vars(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)


class AsyncMessage(AnyMessage):
    """A message.

    Made by subscriptions and requests, or by hand. Fields may be written, attributes of a program's own hung on it, and
    the class may be derived from. The ack verbs are for messages of a stream: each may be sent once, `in_progress`
    before that as often as needed.

    Args:
        _client: What its verbs go through. Default: None, it has no verbs.
        subject: What it was published to. Default: empty.
        reply: Where an answer goes; for a message of a stream, its acknowledgement. Default: empty.
        data: The payload. Default: empty.
        headers: Name to value. Default: none.
        _metadata: What `metadata` gives, instead of what `reply` says. Default: None.
        _ackd: It counts as acknowledged. Default: False.
        _sid: Number of its subscription. Default: None.
    """

    async def respond(self, data: bytes | str) -> None:
        """Publish an answer to `reply`, with this message's headers.

        Args:
            data: The answer.

        Raises:
            Error: It has no reply subject, or no client.
        """
        await ack.respond(self, data)

    async def ack(self) -> None:
        """Confirm that it was processed: it does not come again.

        Raises:
            MsgAlreadyAckdError: It was acknowledged before.
            NotJSMessageError: It has no reply subject, so that no consumer waits for it.
        """
        rest = ack.send_once(self, "ack")
        if rest is not None:
            await ack.await_publish(self, rest)

    async def ack_sync(self, timeout: float | timedelta | None = 1.0) -> Msg:
        """Confirm that it was processed, and wait for the server's word.

        Args:
            timeout: Most seconds, or a timedelta, to wait; None waits as long as it takes. Default: 1.

        Returns:
            The server's answer.

        Raises:
            TimeoutError: The server has not answered; it may be tried again.
            NoRespondersError: The consumer is gone.
            MsgAlreadyAckdError: It was acknowledged before.
            NotJSMessageError: It has no reply subject, so that no consumer waits for it.
        """
        ack.mark_acked(self)
        try:
            answer: Msg = await ack.request_ack(self, duration("timeout", timeout))
        except BaseException:
            self._ackd = False
            raise
        return answer

    async def nak(self, delay: float | timedelta | None = None) -> None:
        """Give it back: it is delivered again.

        Args:
            delay: Seconds, or a timedelta, until then. Default: at once.

        Raises:
            MsgAlreadyAckdError: It was acknowledged before.
            NotJSMessageError: It has no reply subject, so that no consumer waits for it.
        """
        rest = ack.send_once(self, "nak", delay=duration("delay", delay) or None)
        if rest is not None:
            await ack.await_publish(self, rest)

    async def in_progress(self) -> None:
        """Say that work goes on: the time to acknowledge starts anew.

        Raises:
            NotJSMessageError: It has no reply subject, so that no consumer waits for it.
        """
        rest = ack.send(self, "in_progress")
        if rest is not None:
            await rest

    async def term(self, reason: str | None = None) -> None:
        """Give it up: it is delivered to nobody again.

        Args:
            reason: For the server's advisory. Default: none.

        Raises:
            MsgAlreadyAckdError: It was acknowledged before.
            NotJSMessageError: It has no reply subject, so that no consumer waits for it.
        """
        rest = ack.send_once(self, "term", reason=reason)
        if rest is not None:
            await ack.await_publish(self, rest)

    async def working(self) -> None:
        """The same as `in_progress`."""
        await self.in_progress()

    async def ack_with(
        self, kind: Enum | str, *, delay: float | timedelta | None = None, reason: str | None = None
    ) -> None:
        """The ack verb that `kind` names.

        Args:
            kind: `AckKind.ACK`, `NAK`, `PROGRESS` or `TERM`; also as a string, by name ("ACK", in any case) or by what
                goes to the server ("+ACK").
            delay: As `nak`.
            reason: As `term`.

        Raises:
            ValueError: There is no such kind; the text lists them.
            MsgAlreadyAckdError: It was acknowledged before.
            NotJSMessageError: It has no reply subject, so that no consumer waits for it.
        """
        await ack.ack_with(self, kind, delay, reason)


class SyncMessage(AnyMessage):
    """As `jetarrow.aio.msg.Msg`, with verbs that block."""

    def respond(self, data: bytes | str) -> None:
        """As `jetarrow.aio.msg.Msg.respond`."""
        ack.respond(self, data)

    def ack(self) -> None:
        """As `jetarrow.aio.msg.Msg.ack`."""
        ack.send_once(self, "ack")

    def ack_sync(self, timeout: float | timedelta | None = 1.0) -> SyncMsg:
        """As `jetarrow.aio.msg.Msg.ack_sync`."""
        ack.mark_acked(self)
        from jetarrow.core.session import run_to_completion

        try:
            answer: SyncMsg | Coroutine[Any, Any, SyncMsg] = ack.request_ack(self, duration("timeout", timeout))
            return run_to_completion(answer) if isinstance(answer, Coroutine) else answer
        except BaseException:
            self._ackd = False
            raise

    def nak(self, delay: float | timedelta | None = None) -> None:
        """As `jetarrow.aio.msg.Msg.nak`."""
        ack.send_once(self, "nak", delay=duration("delay", delay) or None)

    def in_progress(self) -> None:
        """As `jetarrow.aio.msg.Msg.in_progress`."""
        ack.send(self, "in_progress")

    def term(self, reason: str | None = None) -> None:
        """As `jetarrow.aio.msg.Msg.term`."""
        ack.send_once(self, "term", reason=reason)

    def working(self) -> None:
        """The same as `in_progress`."""
        self.in_progress()

    def ack_with(self, kind: Enum | str, *, delay: float | timedelta | None = None, reason: str | None = None) -> None:
        """As `jetarrow.aio.msg.Msg.ack_with`."""
        ack.ack_with(self, kind, delay, reason)


def _open(msg: AnyMessage, *, anew: bool) -> None:
    """Lets a message show what was hung on it: a name that its class has not (`anew`), or one in the place of its own.

    It gets a class that looks there, and passes for the one it had. Messages on which nothing hangs are read without a
    look: that is why not all of them do.
    """
    cls: Any = msg.__class__
    if type(msg) is not _opened(cls, anew=False):
        _CLASS.__set__(msg, _opened(cls, anew=anew))


@functools.cache
def _opened(cls: Any, *, anew: bool) -> type[AnyMessage]:
    def missing(self: AnyMessage, name: str) -> Any:
        found = cls._hung(self, name, cls)
        if found is cls:
            raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return found

    def any_name(self: AnyMessage, name: str) -> Any:
        found = cls if name in _NAMES else cls._hung(self, name, cls)
        return cls.__getattribute__(self, name) if found is cls else found

    look = {"__getattr__": missing} if anew else {"__getattribute__": any_name}
    members = {"__slots__": (), "__class__": property(lambda _: cls), **look}
    return type(cls.__name__, (cls,), {**members, "__module__": cls.__module__, "__qualname__": cls.__qualname__})


def complete(msg: type[AnyMessage], sync_msg: type[AnyMessage]) -> None:
    """Sets on the native classes what this module has for them; called once, by the native module."""
    for native, given in ((msg, AnyMessage), (msg, AsyncMessage), (sync_msg, SyncMessage)):
        native.__doc__ = given.__doc__
        for name, member in vars(given).items():
            if isinstance(member, FunctionType) or name == "__hash__":
                setattr(native, name, member)
    for name, field in FIELDS.items():
        setattr(msg, name, field)
    for name in ("__dataclass_fields__", "__dataclass_params__", "__match_args__"):
        setattr(msg, name, getattr(Fields, name))
