"""Streams and consumers: JSON over request and reply."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jetarrow.js import api
from jetarrow.js.errors import APIError

if TYPE_CHECKING:
    from jetarrow.aio.client import Client


class JetStreamManager:
    """Administration of streams and consumers."""

    def __init__(
        self,
        conn: Client,
        prefix: str = api.DEFAULT_PREFIX,
        timeout: float = 5.0,
    ) -> None:
        self._nc = conn
        self._prefix = prefix
        self._timeout = timeout

    async def _api(self, verb: str, body: dict[str, Any] | None = None, *, timeout: float | None = None) -> Any:
        payload = b"" if body is None else json.dumps(body).encode()
        call = self._nc._native.request(f"{self._prefix}.{verb}", payload, timeout=timeout or self._timeout)
        answer: Any = _parse(await self._nc._run(call))
        if "error" in answer:
            raise APIError.build(answer["error"])
        return answer

    async def add_stream(self, /, config: api.StreamConfig | None = None, **params: Any) -> api.StreamInfo:
        """Creates a stream; does nothing where it is there with the same configuration.

        Parameters:
            config: the configuration; every field of `StreamConfig` is a keyword as well, and keywords win.

        Raises:
            BadRequestError: the server refuses the configuration, or a stream of that name has another one.
            ValueError: no name, or one that is not valid.
        """
        config = (config or api.StreamConfig()).evolve(**params)
        answer = await self._api(f"STREAM.CREATE.{_name('stream', config.name)}", config.as_dict())
        return api.StreamInfo.from_response(answer)

    async def stream_info(self, name: str, subjects_filter: str | None = None) -> api.StreamInfo:
        """Configuration and state of a stream.

        Parameters:
            name: the stream.
            subjects_filter: also count the messages of each subject that matches, in `state.subjects`.

        Raises:
            NotFoundError: there is no such stream.
        """
        body = {"subjects_filter": subjects_filter} if subjects_filter else None
        return api.StreamInfo.from_response(await self._api(f"STREAM.INFO.{_name('stream', name)}", body))

    async def delete_stream(self, name: str) -> bool:
        """Deletes a stream with all its messages and consumers.

        Raises:
            NotFoundError: there is no such stream.
        """
        answer = await self._api(f"STREAM.DELETE.{_name('stream', name)}")
        return bool(answer["success"])

    async def find_stream_name_by_subject(self, subject: str) -> str:
        """Name of the stream that takes a subject.

        Raises:
            NotFoundError: no stream does.
        """
        answer = await self._api("STREAM.NAMES", {"subject": subject})
        if not answer.get("streams"):
            raise APIError.build({"code": 404, "description": f"no stream takes the subject {subject!r}"})
        name: str = answer["streams"][0]
        return name

    async def add_consumer(
        self,
        /,
        stream: str,
        config: api.ConsumerConfig | None = None,
        timeout: float | None = None,
        **params: Any,
    ) -> api.ConsumerInfo:
        """Creates a consumer.

        Parameters:
            stream: the stream it reads.
            config: the configuration; every field of `ConsumerConfig` is a keyword as well, and keywords win.
            timeout: seconds, default that of the context.

        Raises:
            NotFoundError: there is no such stream.
            BadRequestError: the server refuses the configuration.
        """
        config = (config or api.ConsumerConfig()).evolve(**params)
        name = config.name or config.durable_name
        verb = f"CONSUMER.CREATE.{_name('stream', stream)}"
        if name:
            verb += f".{_name('consumer', name)}"
            if config.filter_subject:
                verb += f".{config.filter_subject}"
        answer = await self._api(verb, {"stream_name": stream, "config": config.as_dict()}, timeout=timeout)
        return api.ConsumerInfo.from_response(answer)

    async def consumer_info(self, stream: str, consumer: str, timeout: float | None = None) -> api.ConsumerInfo:
        """Configuration and state of a consumer.

        Raises:
            NotFoundError: there is no such stream or consumer.
        """
        verb = f"CONSUMER.INFO.{_name('stream', stream)}.{_name('consumer', consumer)}"
        return api.ConsumerInfo.from_response(await self._api(verb, timeout=timeout))


def _parse(answer: bytes) -> Any:
    return json.loads(answer)


def _name(what: str, name: str | None) -> str:
    """A name that becomes one token of an API subject."""
    if not name or any(c in ".*>/\\" or c.isspace() or not c.isprintable() for c in name):
        raise ValueError(
            f"{what} name {name!r} is not valid: no white space, dots, wildcards or path separators, "
            "and at least one character"
        )
    return name
