"""Management of consumers."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any

from jetarrow.jetstream import models
from jetarrow.jetstream.api import Requests, checked
from jetarrow.jetstream.models.base import to_rfc3339

# A pause until then is over.
_PAST = "1970-01-01T00:00:00Z"


class ConsumerAdmin(Requests):
    """Create, change, list, pause, reset and delete consumers."""

    async def add_consumer(
        self,
        /,
        stream: str,
        config: models.ConsumerConfig | None = None,
        timeout: float | None = None,
        **params: Any,
    ) -> models.ConsumerInfo:
        """Creates a consumer, or changes the one of that name.

        Parameters:
            stream: the stream it reads.
            config: the configuration; every field of `ConsumerConfig` is a keyword as well, and keywords win.
            timeout: seconds, default that of the context.

        Raises:
            NotFoundError: there is no such stream.
            BadRequestError, ServerError: the server refuses the configuration.
            ValueError: a name is not valid.
        """
        return await self._put_consumer(stream, (config or models.ConsumerConfig()).evolve(**params), "", timeout)

    async def update_consumer(
        self, /, stream: str, config: models.ConsumerConfig | None = None, **fields: Any
    ) -> models.ConsumerInfo:
        """Changes a consumer that is there.

        Parameters:
            stream: the stream it reads.
            config: the new configuration, which takes the place of the old one as a whole. None keeps the old one but
                for the fields given: `update_consumer("S", name="worker", ack_wait=60)`.
            fields: fields of `ConsumerConfig`; they win over `config`. `name` (or `durable_name`) says which consumer.

        Raises:
            NotFoundError: there is no such stream or consumer (without `config`).
            BadRequestError, ServerError: no such consumer (with `config`), or the server refuses the configuration;
                some fields, such as `deliver_policy`, can never change.
            ValueError: no name, or one that is not valid.
        """
        if config is None:
            name = fields.get("name") or fields.get("durable_name")
            config = (await self.consumer_info(stream, name or "")).config
            # They exclude each other: who gives one means it instead of the other.
            for one, other in (("filter_subject", "filter_subjects"), ("filter_subjects", "filter_subject")):
                if one in fields:
                    fields.setdefault(other, None)
        config = config.evolve(**fields)
        checked("consumer", config.name or config.durable_name)
        return await self._put_consumer(stream, config, "update", None)

    async def _put_consumer(
        self, stream: str, config: models.ConsumerConfig, action: str, timeout: float | None
    ) -> models.ConsumerInfo:
        verb = f"CONSUMER.CREATE.{checked('stream', stream)}"
        for name in (config.durable_name, config.name):
            if name:
                checked("consumer", name)
        name = config.name or config.durable_name
        if name:
            verb += f".{name}"
            if config.filter_subject:
                verb += f".{config.filter_subject}"
        body: dict[str, Any] = {"stream_name": stream, "config": config.as_dict()}
        if action:
            body["action"] = action
        return models.ConsumerInfo.from_response(await self._api(verb, body, timeout=timeout))

    async def consumer_info(self, stream: str, consumer: str, timeout: float | None = None) -> models.ConsumerInfo:
        """Configuration and state of a consumer.

        Parameters:
            stream, consumer: their names.
            timeout: seconds, default that of the context.

        Raises:
            NotFoundError: there is no such stream or consumer.
            ValueError: a name is not valid.
        """
        answer = await self._api(_verb("INFO", stream, consumer), timeout=timeout)
        return models.ConsumerInfo.from_response(answer)

    async def consumers_info(self, stream: str, offset: int | None = None) -> list[models.ConsumerInfo]:
        """One page of a stream's consumers, at most 256, in the order of their names.

        `js.stream(name).consumers()` goes through all pages.

        Parameters:
            stream: the stream.
            offset: how many to leave out before it.

        Raises:
            NotFoundError: there is no such stream.
            ValueError: the name is not valid.
        """
        body = None if offset is None else {"offset": offset}
        answer = await self._api(f"CONSUMER.LIST.{checked('stream', stream)}", body)
        return [models.ConsumerInfo.from_response(consumer) for consumer in answer["consumers"] or ()]

    async def delete_consumer(self, stream: str, consumer: str) -> bool:
        """Deletes a consumer. The messages stay in the stream.

        Raises:
            NotFoundError: there is no such stream or consumer.
            ValueError: a name is not valid.
        """
        answer = await self._api(_verb("DELETE", stream, consumer))
        return bool(answer["success"])

    async def pause_consumer(
        self, stream: str, consumer: str, pause_until: str | datetime, timeout: float | None = None
    ) -> models.ConsumerPause:
        """Stops a consumer's deliveries until a time. Server 2.11 or later.

        Parameters:
            stream, consumer: their names.
            pause_until: a datetime or RFC 3339 text (without a zone local time); a time that is past resumes.
            timeout: seconds, default that of the context.

        Returns:
            Whether it is paused now, and for how many nanoseconds more.

        Raises:
            NotFoundError: there is no such stream or consumer.
            BadRequestError: the text is no time.
            ValueError: a name is not valid.
        """
        # As with nats-py, it is the server that refuses a text which is no time.
        with suppress(ValueError):
            pause_until = to_rfc3339(pause_until)
        body = {"pause_until": pause_until}
        answer = await self._api(_verb("PAUSE", stream, consumer), body, timeout=timeout)
        return models.ConsumerPause.from_response(answer)

    async def resume_consumer(self, stream: str, consumer: str, timeout: float | None = None) -> models.ConsumerPause:
        """Ends a pause at once; as `pause_consumer` with a time that is past."""
        return await self.pause_consumer(stream, consumer, _PAST, timeout)

    async def reset_consumer(
        self, stream: str, consumer: str, seq: int | None = None, timeout: float | None = None
    ) -> models.ConsumerReset:
        """Lets a consumer deliver again what it had delivered (ADR-60). Server 2.14 or later.

        Parameters:
            stream, consumer: their names.
            seq: the stream sequence to go on with; None (or 0) is the first one that is not acknowledged. A sequence
                needs `deliver_policy` all, by_start_sequence or by_start_time, and none before its start.
            timeout: seconds, default that of the context.

        Raises:
            ConsumerInvalidResetError: its `deliver_policy` does not allow this sequence.
            NotFoundError: there is no such stream or consumer.
            ValueError: a name is not valid.
        """
        answer = await self._api(_verb("RESET", stream, consumer), {"seq": seq} if seq else None, timeout=timeout)
        return models.ConsumerReset.from_response(answer)


def _verb(verb: str, stream: str, consumer: str) -> str:
    return f"CONSUMER.{verb}.{checked('stream', stream)}.{checked('consumer', consumer)}"
