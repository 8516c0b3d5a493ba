"""Management of consumers."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack

from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.literals import ConsumerAction
from jetarrow.jetstream.models.values import checked_name, to_rfc3339
from jetarrow.jetstream.server_features import require_fields, require_version

if TYPE_CHECKING:
    from jetarrow.jetstream.option_types import ConsumerOptions

# A past time, which ends a pause.
_PAST = "1970-01-01T00:00:00Z"


class ConsumerVerbs:
    """Verbs that create, change, list, pause, reset and delete consumers."""

    _api: JetStreamApi

    async def add_consumer(
        self,
        /,
        stream: str,
        config: models.ConsumerConfig | None = None,
        timeout: float | None = None,
        **params: Unpack[ConsumerOptions],
    ) -> models.ConsumerInfo:
        """Creates a consumer, or changes the one of that name.

        Args:
            stream: The stream it reads.
            config: The configuration.
            timeout: Seconds. Default: the timeout of the context.
            **params: Fields of `ConsumerConfig`, by name; they override `config`.

        Raises:
            NotFoundError: The stream does not exist.
            BadRequestError: The server rejects the configuration.
            ServerError: The server rejects the configuration.
            ValueError: A name is invalid.
        """
        return await put_consumer(
            self._api, stream, (config or models.ConsumerConfig()).evolve(**params), timeout=timeout
        )

    async def update_consumer(
        self, /, stream: str, config: models.ConsumerConfig | None = None, **fields: Unpack[ConsumerOptions]
    ) -> models.ConsumerInfo:
        """Changes an existing consumer.

        Args:
            stream: The stream it reads.
            config: The new configuration, which replaces the old one as a whole. None changes only
                the given fields: `update_consumer("S", name="worker", ack_wait=60)`.
            **fields: Fields of `ConsumerConfig`; they override `config`. `name` (or `durable_name`) selects the
                consumer.

        Raises:
            NotFoundError: The stream or the consumer does not exist (without `config`).
            BadRequestError: The consumer does not exist (with `config`), or the server rejects the configuration.
            ServerError: the server rejects the configuration; some fields, such as `deliver_policy`, cannot be changed.
            ValueError: The name is missing or invalid.
        """
        given: dict[str, Any] = {**fields}
        if config is None:
            name = given.get("name") or given.get("durable_name")
            config = (await self.consumer_info(stream, name or "")).config
            # They exclude each other: a given one replaces the other.
            for one, other in (("filter_subject", "filter_subjects"), ("filter_subjects", "filter_subject")):
                if one in given:
                    given.setdefault(other, None)
        config = config.evolve(**given)
        checked_name("consumer", config.name or config.durable_name)
        return await put_consumer(self._api, stream, config, action="update")

    async def consumer_info(self, stream: str, consumer: str, timeout: float | None = None) -> models.ConsumerInfo:
        """Configuration and state of a consumer.

        Args:
            stream: The stream's name.
            consumer: The consumer's name.
            timeout: Seconds. Default: the timeout of the context.

        Raises:
            NotFoundError: The stream or the consumer does not exist.
            ValueError: A name is invalid.
        """
        answer = await self._api.request(_verb("INFO", stream, consumer), timeout=timeout)
        return models.ConsumerInfo.from_response(answer)

    async def consumers_info(self, stream: str, offset: int | None = None) -> list[models.ConsumerInfo]:
        """One page of a stream's consumers, at most 256, in the order of their names.

        `js.stream(name).consumers()` lists all pages.

        Args:
            stream: The stream.
            offset: Number of consumers before the page.

        Raises:
            NotFoundError: The stream does not exist.
            ValueError: The name is invalid.
        """
        body = None if offset is None else {"offset": offset}
        answer = await self._api.request(f"CONSUMER.LIST.{checked_name('stream', stream)}", body)
        return [models.ConsumerInfo.from_response(consumer) for consumer in answer["consumers"] or ()]

    async def delete_consumer(self, stream: str, consumer: str) -> bool:
        """Deletes a consumer. The messages remain in the stream.

        Args:
            stream: The stream's name.
            consumer: The consumer's name.

        Raises:
            NotFoundError: The stream or the consumer does not exist.
            ValueError: A name is invalid.
        """
        answer = await self._api.request(_verb("DELETE", stream, consumer))
        return bool(answer["success"])

    async def pause_consumer(
        self, stream: str, consumer: str, pause_until: str | datetime, timeout: float | None = None
    ) -> models.ConsumerPause:
        """Stops a consumer's deliveries until a time. Server 2.11 or later.

        Args:
            stream: The stream's name.
            consumer: The consumer's name.
            pause_until: A datetime or RFC 3339 text (local time if it has no zone); a past time resumes deliveries.
            timeout: Seconds. Default: the timeout of the context.

        Returns:
            Whether it is paused, and the remaining nanoseconds.

        Raises:
            NotFoundError: The stream or the consumer does not exist.
            BadRequestError: The text is not a time.
            UnsupportedError: The server is older than 2.11.
            ValueError: A name is invalid.
        """
        require_version(self._api, "pause_consumer", (2, 11))
        # As with nats-py, the server rejects a text that is not a time.
        with suppress(ValueError):
            pause_until = to_rfc3339(pause_until)
        body = {"pause_until": pause_until}
        answer = await self._api.request(_verb("PAUSE", stream, consumer), body, timeout=timeout)
        return models.ConsumerPause.from_response(answer)

    async def resume_consumer(self, stream: str, consumer: str, timeout: float | None = None) -> models.ConsumerPause:
        """Ends a pause at once; as `pause_consumer` with a past time.

        Args:
            stream: The stream's name.
            consumer: The consumer's name.
            timeout: Seconds. Default: the timeout of the context.
        """
        return await self.pause_consumer(stream, consumer, _PAST, timeout)

    async def reset_consumer(
        self, stream: str, consumer: str, seq: int | None = None, timeout: float | None = None
    ) -> models.ConsumerReset:
        """Resets the position of a consumer, so that messages are redelivered (ADR-60). Server 2.14 or later.

        Args:
            stream: The stream's name.
            consumer: The consumer's name.
            seq: The stream sequence of the next delivery; None (or 0) is the first unacknowledged one. A sequence needs
                `deliver_policy` all, by_start_sequence or by_start_time, and must not be before its start.
            timeout: Seconds. Default: the timeout of the context.

        Raises:
            UnsupportedError: The server is older than 2.14.
            ConsumerInvalidResetError: Its `deliver_policy` does not allow this sequence.
            NotFoundError: The stream or the consumer does not exist.
            ValueError: A name is invalid.
        """
        require_version(self._api, "reset_consumer", (2, 14))
        answer = await self._api.request(
            _verb("RESET", stream, consumer), {"seq": seq} if seq else None, timeout=timeout
        )
        return models.ConsumerReset.from_response(answer)

    async def unpin_consumer(self, stream: str, consumer: str, group: str) -> None:
        """Unpins a priority group from its client, so that another client is pinned. Server 2.11 or later.

        Args:
            stream: The stream's name.
            consumer: The consumer's name; its `priority_policy` is "pinned_client".
            group: The group, one of its `priority_groups`.

        Raises:
            UnsupportedError: The server is older than 2.11.
            BadRequestError: The consumer does not have the group.
            NotFoundError: The stream or the consumer does not exist.
            ValueError: A name is invalid.
        """
        require_version(self._api, "unpin_consumer", (2, 11))
        await self._api.request(_verb("UNPIN", stream, consumer), {"group": group})


def _verb(verb: str, stream: str, consumer: str) -> str:
    return f"CONSUMER.{verb}.{checked_name('stream', stream)}.{checked_name('consumer', consumer)}"


async def put_consumer(
    api: JetStreamApi,
    stream: str,
    config: models.ConsumerConfig,
    *,
    action: ConsumerAction | None = None,
    timeout: float | None = None,
) -> models.ConsumerInfo:
    """Creates or changes a consumer; with an `action` the server does only that."""
    require_fields(api, config)
    verb = f"CONSUMER.CREATE.{checked_name('stream', stream)}"
    for name in (config.durable_name, config.name):
        if name:
            checked_name("consumer", name)
    name = config.name or config.durable_name
    if name:
        verb += f".{name}"
        if config.filter_subject:
            verb += f".{config.filter_subject}"
    body: dict[str, Any] = {"stream_name": stream, "config": config.as_dict()}
    if action is not None:
        body["action"] = action
    info = models.ConsumerInfo.from_response(await api.request(verb, body, timeout=timeout))
    filters = config.filter_subjects or ([config.filter_subject] if config.filter_subject else [])
    if filters and not info.num_pending:
        await api.filters.warn(api, stream, filters, reader=f"consumer {info.name!r}")
    return info
