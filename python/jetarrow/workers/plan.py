"""Checked options of a worker."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from jetarrow.core.arguments import check_whole, function, seconds, text, texts
from jetarrow.jetstream import models
from jetarrow.jetstream.models.values import checked_name
from jetarrow.workers.retry import Backoff

Key: TypeAlias = "Callable[[Any], Hashable] | str | int | None"

# Largest number of buffered messages that the speed of the handlers can lead to, and the seconds of work in them.
MAX_PREFETCH = 5_000
PREFETCH_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Options of `jetarrow.worker`, which documents them.

    Raises:
        TypeError: An option has a wrong type.
        ValueError: An option is out of range, or two exclude each other.
    """

    stream: str
    durable: str = ""
    group: str | None = None
    member: str | None = None
    handler: Callable[[Any], Any] | None = None
    batch_handler: Callable[[Any], Any] | None = None
    rows: int = 1000
    seconds: float = 1.0
    filter: str | Sequence[str] | None = None
    concurrency: int = 10
    prefetch: int | None = None
    max_bytes: int = 64 * 1024 * 1024
    key: Key = None
    retry: Backoff = field(default_factory=Backoff)
    dead_letter: str | bool | None = True
    confirm: bool = False
    ack_wait: float | None = None
    handler_timeout: float | None = None
    drain_timeout: float = 30.0
    signals: bool = True
    health: str | None = None
    config: models.ConsumerConfig | None = None
    update: bool = False

    def __post_init__(self) -> None:
        checked_name("stream", self.stream)
        self._check_place()
        function("handler", self.handler)
        function("batch_handler", self.batch_handler)
        if (self.handler is None) == (self.batch_handler is None):
            raise TypeError("pass handler= for single messages, or batch_handler= for Arrow batches, and not both")
        check_whole(rows=self.rows, concurrency=self.concurrency, prefetch=self.prefetch, max_bytes=self.max_bytes)
        for name in ("rows", "concurrency", "max_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, not {getattr(self, name)}")
        if self.prefetch is not None and self.prefetch < 0:
            raise ValueError(f"prefetch must be 0 or more, not {self.prefetch}")
        for name in ("seconds", "ack_wait", "handler_timeout"):
            value = seconds(name, getattr(self, name))
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive, not {value}")
        if not self.drain_timeout >= 0:
            raise ValueError(f"drain_timeout must be 0 or more, not {self.drain_timeout}")
        if not isinstance(self.retry, Backoff):
            raise TypeError(f"retry must be a jetarrow.Backoff, not {type(self.retry).__name__}")
        self._check_key()

    def _check_place(self) -> None:
        """Checks the names of the consumer, or of group and member; `durable` becomes the name for messages."""
        if (self.group is None) != (self.member is None):
            raise TypeError("group= and member= go together: pass the names of the consumer group and of a member")
        if self.group is None or self.member is None:
            if not self.durable:
                raise TypeError("pass durable=, the name of a consumer, or group= and member=")
            checked_name("consumer", text("durable", self.durable))
            return
        given = {
            "durable": self.durable or None,
            "filter": self.filter,
            "config": self.config,
            "update": self.update or None,
        }
        if unfit := [name for name, value in given.items() if value is not None]:
            raise TypeError(f"{', '.join(unfit)} and group= exclude each other: the group has the consumers")
        object.__setattr__(self, "durable", f"{self.group}-{self.member}")

    def _check_key(self) -> None:
        key = self.key
        if key is None:
            return
        if self.batch_handler is not None:
            raise ValueError(
                "key= is for handler=: a batch has messages of many keys, which only the handler can order"
            )
        if isinstance(key, str) and key != "subject":
            raise ValueError(f"key must be 'subject', a number of a wildcard or a function, not {key!r}")
        if not isinstance(key, str) and not callable(key):
            check_whole(key=key)

    @property
    def call(self) -> Callable[[Any], Any]:
        """The handler, of either kind."""
        found = self.handler or self.batch_handler
        assert found is not None
        return found

    @property
    def is_async(self) -> bool:
        """Whether the handler is a coroutine function, or an object that is called as one."""
        call = self.call
        return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004  # its type

    @property
    def filters(self) -> list[str]:
        """The filters."""
        return texts("filter", self.filter)

    def key_function(self, filters: list[str]) -> Callable[[Any], Hashable] | None:
        """Returns the function that a message's key comes from; None without order.

        Args:
            filters: The filters of the consumer.

        Raises:
            ValueError: The filter has no wildcard of this number.
        """
        key = self.key
        if key is None or callable(key):
            return key
        if key == "subject":
            return _subject
        stars = (
            [place for place, token in enumerate(filters[0].split(".")) if token == "*"] if len(filters) == 1 else []
        )
        number = int(key)
        if not 1 <= number <= len(stars):
            raise ValueError(
                f"key={number} is the number of a '*' in the filter, which has {len(stars)}"
                f" ({', '.join(filters) or 'no filter'}); pass filter= with one subject, or key= as a function"
            )
        place = stars[number - 1]
        return lambda message: message.subject.split(".")[place]


def _subject(message: Any) -> str:
    subject: str = message.subject
    return subject
