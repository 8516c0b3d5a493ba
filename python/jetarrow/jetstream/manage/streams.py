"""Management of streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any, Unpack

from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.errors import APIError
from jetarrow.jetstream.models.values import checked_name
from jetarrow.jetstream.server_features import require_fields

if TYPE_CHECKING:
    from jetarrow.jetstream.option_types import StreamOptions


class StreamVerbs:
    """Create, change, list, empty and delete streams."""

    _api: JetStreamApi

    async def add_stream(
        self, /, config: models.StreamConfig | None = None, **params: Unpack[StreamOptions]
    ) -> models.StreamInfo:
        """Creates a stream; does nothing where it is there with the same configuration.

        Args:
            config: The configuration.
            **params: Fields of `StreamConfig`, by name; they win over `config`.

        Raises:
            BadRequestError: The server refuses the configuration, or a stream of that name has another one.
            UnsupportedError: A setting that the server is too old for.
            ValueError: No name, or one that is not valid.
        """
        config = (config or models.StreamConfig()).evolve(**params)
        require_fields(self._api, config)
        answer = await self._api.request(f"STREAM.CREATE.{checked_name('stream', config.name)}", config.as_dict())
        return models.StreamInfo.from_response(answer)

    async def update_stream(
        self, /, config: models.StreamConfig | str | None = None, **params: Unpack[StreamOptions]
    ) -> models.StreamInfo:
        """Gives a stream a new configuration, or changes some fields of the one that it has.

        A configuration, or fields alone, take the place of the old one as a whole, as nats-py has it: what is not given
        goes back to its default. After a name all but the fields stays as it is: `update_stream("S", max_age=3600)`.

        Args:
            config: The configuration, or the stream's name.
            **params: Fields of `StreamConfig`, by name; they win over `config`.

        Raises:
            NotFoundError: There is no such stream.
            BadRequestError: The server refuses the configuration; some fields can never change.
            ServerError: The server refuses the configuration; some fields can never change.
            UnsupportedError: A setting that the server is too old for.
            ValueError: No name, or one that is not valid.
        """
        if isinstance(config, str):
            config = (await self.stream_info(config)).config
        config = (config or models.StreamConfig()).evolve(**params)
        require_fields(self._api, config)
        answer = await self._api.request(f"STREAM.UPDATE.{checked_name('stream', config.name)}", config.as_dict())
        return models.StreamInfo.from_response(answer)

    async def stream_info(
        self, name: str, subjects_filter: str | None = None, *, deleted_details: bool = False
    ) -> models.StreamInfo:
        """Configuration and state of a stream.

        Args:
            name: The stream.
            subjects_filter: Also count the messages of each subject that matches, in `state.subjects`; `">"` is all.
            deleted_details: Also list the sequences of deleted messages, in `state.deleted`.

        Raises:
            NotFoundError: There is no such stream.
            ValueError: The name is not valid.
        """
        verb = f"STREAM.INFO.{checked_name('stream', name)}"
        body: dict[str, Any] = {}
        if subjects_filter:
            body["subjects_filter"] = subjects_filter
        if deleted_details:
            body["deleted_details"] = True
        answer = await self._api.request(verb, body or None)
        if not isinstance(answer.get("state"), dict):
            raise APIError(message=f"{verb}: the answer has no state, so it is not a server's")
        subjects = answer["state"].get("subjects")
        # The server lists at most 100,000 subjects at a time.
        while subjects and len(subjects) < answer.get("total", 0):
            more = await self._api.request(verb, {"subjects_filter": subjects_filter, "offset": len(subjects)})
            if not (page := more["state"].get("subjects")):
                break
            subjects.update(page)
        return models.StreamInfo.from_response(answer)

    async def delete_stream(self, name: str) -> bool:
        """Deletes a stream with all its messages and consumers.

        Args:
            name: The stream's name.

        Raises:
            NotFoundError: There is no such stream.
            ValueError: The name is not valid.
        """
        answer = await self._api.request(f"STREAM.DELETE.{checked_name('stream', name)}")
        return bool(answer["success"])

    async def purge_stream(
        self, name: str, seq: int | None = None, subject: str | None = None, keep: int | None = None
    ) -> models.PurgeResponse:
        """Removes messages of a stream.

        The stream still knows the ids of what is gone: published again within its `duplicate_window` they are
        duplicates, and nothing is stored.

        Args:
            name: The stream.
            seq: Only those before this sequence; not together with `keep`.
            subject: Only those of the subjects that match.
            keep: The number of newest messages to keep.

        Returns:
            What is true, as nats-py has it, and has `purged`: how many were removed.

        Raises:
            NotFoundError: There is no such stream.
            BadRequestError: Both `seq` and `keep`.
            ServerError: The stream does not allow it (`deny_purge`, `sealed`).
            ValueError: The name is not valid, or `subject` is empty, which would be all.
        """
        answer = await purge(self._api, name, seq=seq, subject=subject, keep=keep)
        return models.PurgeResponse(bool(answer["success"]), answer["purged"])

    async def streams_info(self, offset: int = 0) -> list[models.StreamInfo]:
        """One page of the streams, at most 256, in the order of their names. `streams()` goes through all pages.

        Args:
            offset: How many to leave out before it.
        """
        answer = await self._api.request("STREAM.LIST", {"offset": offset})
        return [models.StreamInfo.from_response(stream) for stream in answer["streams"] or ()]

    async def streams_info_iterator(self, offset: int = 0) -> Iterable[models.StreamInfo]:
        """The same page as an iterator, which also has `offset` and `total`, the number of streams there are.

        Args:
            offset: How many to leave out before it.
        """
        answer = await self._api.request("STREAM.LIST", {"offset": offset})
        return models.StreamsListIterator(answer["offset"], answer["total"], answer["streams"] or [])

    async def streams(self, subject: str | None = None) -> AsyncIterator[models.StreamInfo]:
        """All streams, in the order of their names: `async for info in js.streams()`.

        Pages are fetched as they are needed; a stream that is created or deleted meanwhile may make another one come
        twice or not at all.

        Args:
            subject: Only streams with a subject that matches this one; None is all.
        """
        async for stream in self._api.pages("STREAM.LIST", "streams", {"subject": subject} if subject else None):
            yield models.StreamInfo.from_response(stream)

    async def stream_names(self, subject: str | None = None) -> AsyncIterator[str]:
        """The names of all streams, sorted; as `streams`, and much cheaper.

        Args:
            subject: Only streams with a subject that matches this one; None is all.
        """
        async for name in self._api.pages("STREAM.NAMES", "streams", {"subject": subject} if subject else None):
            yield name

    async def find_stream_name_by_subject(self, subject: str) -> str:
        """Name of the stream that takes a subject.

        Args:
            subject: The subject.

        Raises:
            NotFoundError: No stream does.
        """
        answer = await self._api.request("STREAM.NAMES", {"subject": subject})
        if not answer.get("streams"):
            raise APIError.build({"code": 404, "description": f"no stream takes the subject {subject!r}"})
        name: str = answer["streams"][0]
        return name


async def purge(api: JetStreamApi, name: str, *, seq: int | None, subject: str | None, keep: int | None) -> Any:
    """Removes messages of a stream; the server's answer, which says how many."""
    # nats-py and the server take 0 for "not given".
    if subject == "":
        raise ValueError("subject must not be empty: leave it out to purge all")
    request = models.StreamPurgeRequest(seq=seq or None, filter=subject, keep=keep or None)
    return await api.request(f"STREAM.PURGE.{checked_name('stream', name)}", request.as_dict())
