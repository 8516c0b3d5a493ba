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

# A pause until then is over.
_PAST = "1970-01-01T00:00:00Z"


class ConsumerVerbs:
    """Create, change, list, pause, reset and delete consumers."""

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
            timeout: Seconds, default that of the context.
            **params: Fields of `ConsumerConfig`, by name; they win over `config`.

        Raises:
            NotFoundError: There is no such stream.
            BadRequestError: The server refuses the configuration.
            ServerError: The server refuses the configuration.
            ValueError: A name is not valid.
        """
        return await put_consumer(
            self._api, stream, (config or models.ConsumerConfig()).evolve(**params), timeout=timeout
        )

    async def update_consumer(
        self, /, stream: str, config: models.ConsumerConfig | None = None, **fields: Unpack[ConsumerOptions]
    ) -> models.ConsumerInfo:
        """Changes a consumer that is there.

        Args:
            stream: The stream it reads.
            config: The new configuration, which takes the place of the old one as a whole. None keeps the old one but
                for the fields given: `update_consumer("S", name="worker", ack_wait=60)`.
            **fields: Fields of `ConsumerConfig`; they win over `config`. `name` (or `durable_name`) says which
                consumer.

        Raises:
            NotFoundError: There is no such stream or consumer (without `config`).
            BadRequestError: There is no such consumer (with `config`), or the server refuses the configuration.
            ServerError: The server refuses the configuration; some fields, such as `deliver_policy`, can never change.
            ValueError: No name, or one that is not valid.
        """
        given: dict[str, Any] = {**fields}
        if config is None:
            name = given.get("name") or given.get("durable_name")
            config = (await self.consumer_info(stream, name or "")).config
            # They exclude each other: who gives one means it instead of the other.
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
            timeout: Seconds, default that of the context.

        Raises:
            NotFoundError: There is no such stream or consumer.
            ValueError: A name is not valid.
        """
        answer = await self._api.request(_verb("INFO", stream, consumer), timeout=timeout)
        return models.ConsumerInfo.from_response(answer)

    async def consumers_info(self, stream: str, offset: int | None = None) -> list[models.ConsumerInfo]:
        """One page of a stream's consumers, at most 256, in the order of their names.

        `js.stream(name).consumers()` goes through all pages.

        Args:
            stream: The stream.
            offset: How many to leave out before it.

        Raises:
            NotFoundError: There is no such stream.
            ValueError: The name is not valid.
        """
        body = None if offset is None else {"offset": offset}
        answer = await self._api.request(f"CONSUMER.LIST.{checked_name('stream', stream)}", body)
        return [models.ConsumerInfo.from_response(consumer) for consumer in answer["consumers"] or ()]

    async def delete_consumer(self, stream: str, consumer: str) -> bool:
        """Deletes a consumer. The messages stay in the stream.

        Args:
            stream: The stream's name.
            consumer: The consumer's name.

        Raises:
            NotFoundError: There is no such stream or consumer.
            ValueError: A name is not valid.
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
            pause_until: A datetime or RFC 3339 text (without a zone local time); a time that is past resumes.
            timeout: Seconds, default that of the context.

        Returns:
            Whether it is paused now, and for how many nanoseconds more.

        Raises:
            NotFoundError: There is no such stream or consumer.
            BadRequestError: The text is no time.
            UnsupportedError: The server is older than 2.11.
            ValueError: A name is not valid.
        """
        require_version(self._api, "pause_consumer", (2, 11))
        # As with nats-py, it is the server that refuses a text which is no time.
        with suppress(ValueError):
            pause_until = to_rfc3339(pause_until)
        body = {"pause_until": pause_until}
        answer = await self._api.request(_verb("PAUSE", stream, consumer), body, timeout=timeout)
        return models.ConsumerPause.from_response(answer)

    async def resume_consumer(self, stream: str, consumer: str, timeout: float | None = None) -> models.ConsumerPause:
        """Ends a pause at once; as `pause_consumer` with a time that is past.

        Args:
            stream: The stream's name.
            consumer: The consumer's name.
            timeout: Seconds, default that of the context.
        """
        return await self.pause_consumer(stream, consumer, _PAST, timeout)

    async def reset_consumer(
        self, stream: str, consumer: str, seq: int | None = None, timeout: float | None = None
    ) -> models.ConsumerReset:
        """Lets a consumer deliver again what it had delivered (ADR-60). Server 2.14 or later.

        Args:
            stream: The stream's name.
            consumer: The consumer's name.
            seq: The stream sequence to go on with; None (or 0) is the first one that is not acknowledged. A sequence
                needs `deliver_policy` all, by_start_sequence or by_start_time, and none before its start.
            timeout: Seconds, default that of the context.

        Raises:
            UnsupportedError: The server is older than 2.14.
            ConsumerInvalidResetError: Its `deliver_policy` does not allow this sequence.
            NotFoundError: There is no such stream or consumer.
            ValueError: A name is not valid.
        """
        require_version(self._api, "reset_consumer", (2, 14))
        answer = await self._api.request(
            _verb("RESET", stream, consumer), {"seq": seq} if seq else None, timeout=timeout
        )
        return models.ConsumerReset.from_response(answer)

    async def unpin_consumer(self, stream: str, consumer: str, group: str) -> None:
        """Takes a priority group from the client that it is pinned to: another one gets it. Server 2.11 or later.

        Args:
            stream: The stream's name.
            consumer: The consumer's name; its `priority_policy` is "pinned_client".
            group: The group, one of its `priority_groups`.

        Raises:
            UnsupportedError: The server is older than 2.11.
            BadRequestError: It has no such group.
            NotFoundError: There is no such stream or consumer.
            ValueError: A name is not valid.
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
    """Creates or changes a consumer; `action` "create" or "update" allows only that."""
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
    return models.ConsumerInfo.from_response(await api.request(verb, body, timeout=timeout))
