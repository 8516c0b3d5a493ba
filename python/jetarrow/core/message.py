"""Methods of the message classes. The native classes have the fields; `complete` adds these methods to them.

The methods are Python functions, so that `inspect` and mocks see coroutine functions, and so that a subclass can
override each of them.
"""

from __future__ import annotations

import copyreg
import functools
from asyncio import get_running_loop
from collections.abc import Coroutine
from dataclasses import dataclass, fields
from datetime import timedelta
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, SupportsIndex

from jetarrow.core import ack
from jetarrow.core.arguments import duration
from jetarrow.core.docstrings import documented_as, with_entries_of
from jetarrow.core.metadata import FIELDS

if TYPE_CHECKING:
    from enum import Enum

    from jetarrow._jetarrow import Msg, SyncMsg
    from jetarrow.core.metadata import Metadata

# Maximum payload bytes in the `repr` of a message.
MAX_SHOWN_PAYLOAD = 256


@dataclass
class Fields:
    """The fields of nats-py's message, a dataclass: for `dataclasses.replace`, `fields` and `match`."""

    _client: Any = None
    subject: str = ""
    reply: str = ""
    data: bytes = b""
    headers: dict[str, str] | None = None
    _metadata: Metadata | None = None
    _ackd: bool = False
    _sid: int | None = None


_NAMES = frozenset(field.name for field in fields(Fields))
# Attributes that nats-py does not allow to set. A program may set its own attributes under all other names.
_READ_ONLY = {"header", "is_acked", "metadata", "sid", "__dict__"}
# The descriptor sets the real class of an object, also if `__class__` is overridden.
_CLASS: Any = vars(object)["__class__"]


class AnyMessage(ack.Message):
    """Fields and operators of async and sync messages."""

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
            _add_attribute_lookup(self, anew=not hasattr(type(self), name))

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

    # As for every dataclass with writable fields: no hash.
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        # A program may have set a value of any type.
        data: object = self.data
        shown = repr(data)
        if isinstance(data, bytes | bytearray | str) and len(data) > MAX_SHOWN_PAYLOAD:
            shown = f"{data[:MAX_SHOWN_PAYLOAD]!r}... ({len(data)} in total)"
        name = type(self).__qualname__
        return f"{name}(subject={self.subject!r}, reply={self.reply!r}, data={shown}, headers={self.headers!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _NAMES} | vars(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)


class AsyncMessage(AnyMessage):
    """A message.

    Created by subscriptions, requests or programs. Fields are writable, a program may add attributes, and the class can
    be subclassed. The ack methods are for messages of a stream. One ack, nak or term is sent per message; `in_progress`
    may be sent before it any number of times.

    Args:
        _client: The client that sends replies and acks. Default: None, so that both raise an error.
        subject: The subject. Default: empty.
        reply: The reply subject; for a message of a stream, the ack subject. Default: empty.
        data: The payload. Default: empty.
        headers: Value by header name. Default: none.
        _metadata: The value of `metadata`, instead of the metadata in `reply`. Default: None.
        _ackd: Whether it counts as acknowledged. Default: False.
        _sid: Id of its subscription. Default: None.
    """

    async def respond(self, data: bytes | str) -> None:
        """Publishes a reply to `reply`, with this message's headers.

        Args:
            data: The payload of the reply.

        Raises:
            Error: The message has no reply subject, or no client.
        """
        await ack.respond(self, data)

    async def ack(self) -> None:
        """Acknowledges the message: the server does not redeliver it.

        Raises:
            MsgAlreadyAckdError: The message was already acknowledged.
            NotJSMessageError: The message has no reply subject: no consumer delivered it.
        """
        if self._ack_received(get_running_loop()):
            return
        rest = ack.send_once(self, "ack")
        if rest is not None:
            await ack.await_publish(self, rest)

    async def ack_sync(self, timeout: float | timedelta | None = 1.0) -> Msg:
        """Acknowledges the message, and waits for the server's confirmation.

        Args:
            timeout: Maximum seconds to wait, or a timedelta; None has no limit. Default: 1.

        Returns:
            The server's confirmation.

        Raises:
            TimeoutError: The server has not confirmed in time; the call can be retried.
            NoRespondersError: The consumer does not exist.
            MsgAlreadyAckdError: The message was already acknowledged.
            NotJSMessageError: The message has no reply subject: no consumer delivered it.
        """
        ack.mark_acked(self)
        try:
            answer: Msg = await ack.request_ack(self, duration("timeout", timeout))
        except BaseException:
            self._ackd = False
            raise
        return answer

    async def nak(self, delay: float | timedelta | None = None) -> None:
        """Rejects the message: the server redelivers it.

        Args:
            delay: Minimum seconds until the redelivery, or a timedelta. Default: no delay.

        Raises:
            MsgAlreadyAckdError: The message was already acknowledged.
            NotJSMessageError: The message has no reply subject: no consumer delivered it.
        """
        rest = ack.send_once(self, "nak", delay=duration("delay", delay) or None)
        if rest is not None:
            await ack.await_publish(self, rest)

    async def in_progress(self) -> None:
        """Resets the ack deadline (`ack_wait`): the message is still being processed.

        Raises:
            NotJSMessageError: The message has no reply subject: no consumer delivered it.
        """
        rest = ack.send(self, "in_progress")
        if rest is not None:
            await rest

    async def term(self, reason: str | None = None) -> None:
        """Terminates the message: the server does not redeliver it to any client.

        Args:
            reason: Text for the server's advisory. Default: none.

        Raises:
            MsgAlreadyAckdError: The message was already acknowledged.
            NotJSMessageError: The message has no reply subject: no consumer delivered it.
        """
        rest = ack.send_once(self, "term", reason=reason)
        if rest is not None:
            await ack.await_publish(self, rest)

    async def working(self) -> None:
        """Alias of `in_progress`."""
        await self.in_progress()

    @with_entries_of(nak, term)
    async def ack_with(
        self, kind: Enum | str, *, delay: float | timedelta | None = None, reason: str | None = None
    ) -> None:
        """Sends the ack that `kind` names.

        Args:
            kind: `AckKind.ACK`, `NAK`, `PROGRESS` or `TERM`; also a string, either the name ("ACK", in any case) or the
                payload of the protocol ("+ACK").
            delay: As `nak`.
            reason: As `term`.

        Raises:
            ValueError: The kind does not exist; the text lists the kinds.
            MsgAlreadyAckdError: The message was already acknowledged.
            NotJSMessageError: The message has no reply subject: no consumer delivered it.
        """
        await ack.ack_with(self, kind, delay, reason)


class SyncMessage(AnyMessage):
    """As `jetarrow.aio.msg.Msg`, with blocking methods."""

    @documented_as(AsyncMessage.respond)
    def respond(self, data: bytes | str) -> None:
        """As `jetarrow.aio.msg.Msg.respond`."""
        ack.respond(self, data)

    @documented_as(AsyncMessage.ack)
    def ack(self) -> None:
        """As `jetarrow.aio.msg.Msg.ack`."""
        ack.send_once(self, "ack")

    @documented_as(AsyncMessage.ack_sync)
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

    @documented_as(AsyncMessage.nak)
    def nak(self, delay: float | timedelta | None = None) -> None:
        """As `jetarrow.aio.msg.Msg.nak`."""
        ack.send_once(self, "nak", delay=duration("delay", delay) or None)

    @documented_as(AsyncMessage.in_progress)
    def in_progress(self) -> None:
        """As `jetarrow.aio.msg.Msg.in_progress`."""
        ack.send(self, "in_progress")

    @documented_as(AsyncMessage.term)
    def term(self, reason: str | None = None) -> None:
        """As `jetarrow.aio.msg.Msg.term`."""
        ack.send_once(self, "term", reason=reason)

    def working(self) -> None:
        """Alias of `in_progress`."""
        self.in_progress()

    @documented_as(AsyncMessage.ack_with)
    def ack_with(self, kind: Enum | str, *, delay: float | timedelta | None = None, reason: str | None = None) -> None:
        """As `jetarrow.aio.msg.Msg.ack_with`."""
        ack.ack_with(self, kind, delay, reason)


def _add_attribute_lookup(msg: AnyMessage, *, anew: bool) -> None:
    """Makes the attributes that a program has set on a message readable.

    The message gets a subclass that looks them up and has the `__class__` of the original. Messages without such
    attributes keep their class, because the lookup slows down every attribute access.

    Args:
        msg: The message.
        anew: True for a name that the class does not have, False for one that hides an attribute of the class.
    """
    cls: Any = msg.__class__
    if type(msg) is not _class_with_lookup(cls, anew=False):
        _CLASS.__set__(msg, _class_with_lookup(cls, anew=anew))


@functools.cache
def _class_with_lookup(cls: Any, *, anew: bool) -> type[AnyMessage]:
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
    """Adds the methods of this module to the native classes. The native module calls it once."""
    for native, given in ((msg, AnyMessage), (msg, AsyncMessage), (sync_msg, SyncMessage)):
        native.__doc__ = given.__doc__
        for name, member in vars(given).items():
            if isinstance(member, FunctionType) or name == "__hash__":
                setattr(native, name, member)
    for name, field in FIELDS.items():
        setattr(msg, name, field)
    for name in ("__dataclass_fields__", "__dataclass_params__", "__match_args__"):
        setattr(msg, name, getattr(Fields, name))
