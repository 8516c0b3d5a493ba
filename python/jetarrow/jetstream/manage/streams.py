"""Management of streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Unpack

from jetarrow.core.errors import Error
from jetarrow.core.suggestions import did_you_mean, nearest_name
from jetarrow.jetstream import models
from jetarrow.jetstream.api import NAMES_WAIT, JetStreamApi
from jetarrow.jetstream.errors import APIError, StreamNotFoundError
from jetarrow.jetstream.models.error_codes import ErrorCode
from jetarrow.jetstream.models.values import checked_name
from jetarrow.jetstream.server_features import require_fields

if TYPE_CHECKING:
    from jetarrow.jetstream.option_types import StreamOptions


# Description of a failed creation. One cause is temporary: after the answer to a deletion the server removes the folder
# of all streams if it is empty, even if another stream is just created in it.
_NO_STORE = "creating store for stream"


class StreamVerbs:
    """Verbs that create, change, list, purge and delete streams."""

    _api: JetStreamApi

    async def add_stream(
        self, /, config: models.StreamConfig | None = None, **params: Unpack[StreamOptions]
    ) -> models.StreamInfo:
        """Creates a stream; has no effect if it exists with the same configuration.

        Args:
            config: The configuration.
            **params: Fields of `StreamConfig`, by name; they override `config`.

        Raises:
            BadRequestError: The server rejects the configuration, or a stream of that name has another one.
            UnsupportedError: The server is too old for a setting.
            ValueError: The name is missing or invalid.
        """
        config = (config or models.StreamConfig()).evolve(**params)
        require_fields(self._api, config)
        verb = f"STREAM.CREATE.{checked_name('stream', config.name)}"
        try:
            answer = await self._api.request(verb, config.as_dict())
        except APIError as error:
            if error.err_code != ErrorCode.STREAM_CREATE or _NO_STORE not in (error.description or ""):
                raise
            answer = await self._api.request(verb, config.as_dict())
        return models.StreamInfo.from_response(answer)

    async def update_stream(
        self, /, config: models.StreamConfig | str | None = None, **params: Unpack[StreamOptions]
    ) -> models.StreamInfo:
        """Replaces the configuration of a stream, or changes some of its fields.

        A configuration, or fields alone, replace the old one as a whole, as in nats-py: other fields are reset to their
        defaults. After a name, only the given fields change: `update_stream("S", max_age=3600)`.

        Args:
            config: The configuration, or the stream's name.
            **params: Fields of `StreamConfig`, by name; they override `config`.

        Raises:
            NotFoundError: The stream does not exist.
            BadRequestError: The server rejects the configuration; some fields cannot be changed.
            ServerError: The server rejects the configuration; some fields cannot be changed.
            UnsupportedError: The server is too old for a setting.
            ValueError: The name is missing or invalid.
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
            subjects_filter: Also count the messages of each subject that matches, in `state.subjects`; `">"` counts
                all.
            deleted_details: Also list the sequences of deleted messages, in `state.deleted`.

        Raises:
            NotFoundError: The stream does not exist.
            ValueError: The name is invalid.
        """
        verb = f"STREAM.INFO.{checked_name('stream', name)}"
        body: dict[str, Any] = {}
        if subjects_filter:
            body["subjects_filter"] = subjects_filter
        if deleted_details:
            body["deleted_details"] = True
        answer = await self._api.request(verb, body or None)
        if not isinstance(answer.get("state"), dict):
            raise APIError(
                message=f"could not read the state of stream {name!r}: the response has none; check whether another"
                " program answers"
            )
        subjects = answer["state"].get("subjects")
        # The server lists at most 100,000 subjects per response (JSMaxSubjectDetails).
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
            NotFoundError: The stream does not exist.
            ValueError: The name is invalid.
        """
        answer = await self._api.request(f"STREAM.DELETE.{checked_name('stream', name)}")
        return bool(answer["success"])

    async def purge_stream(
        self, name: str, seq: int | None = None, subject: str | None = None, keep: int | None = None
    ) -> models.PurgeResponse:
        """Removes messages of a stream.

        The stream remembers the ids of purged messages: published again within its `duplicate_window`, they are
        duplicates, and nothing is stored.

        Args:
            name: The stream.
            seq: Only those before this sequence; not together with `keep`.
            subject: Only those of the subjects that match.
            keep: The number of newest messages to keep.

        Returns:
            A result that is true, as in nats-py, with the number of removed messages in `purged`.

        Raises:
            NotFoundError: The stream does not exist.
            BadRequestError: Both `seq` and `keep`.
            ServerError: The stream does not allow it (`deny_purge`, `sealed`).
            ValueError: The name is invalid, or `subject` is empty, which would purge all.
        """
        answer = await purge(self._api, name, seq=seq, subject=subject, keep=keep)
        return models.PurgeResponse(bool(answer["success"]), answer["purged"])

    async def streams_info(self, offset: int = 0) -> list[models.StreamInfo]:
        """One page of the streams, at most 256, in the order of their names. `streams()` lists all pages.

        Args:
            offset: Number of streams before the page.
        """
        answer = await self._api.request("STREAM.LIST", {"offset": offset})
        return [models.StreamInfo.from_response(stream) for stream in answer["streams"] or ()]

    async def streams_info_iterator(self, offset: int = 0) -> Iterable[models.StreamInfo]:
        """The same page as an iterator, which also has `offset` and `total`, the number of all streams.

        Args:
            offset: Number of streams before the page.
        """
        answer = await self._api.request("STREAM.LIST", {"offset": offset})
        return models.StreamsListIterator(answer["offset"], answer["total"], answer["streams"] or [])

    async def streams(self, subject: str | None = None) -> AsyncIterator[models.StreamInfo]:
        """All streams, in the order of their names: `async for info in js.streams()`.

        Pages are requested when they are needed; if a stream is created or deleted meanwhile, another one may be listed
        twice or not at all.

        Args:
            subject: Only streams with a subject that matches this one; None is all.
        """
        async for stream in self._api.pages("STREAM.LIST", "streams", {"subject": subject} if subject else None):
            yield models.StreamInfo.from_response(stream)

    async def stream_names(self, subject: str | None = None) -> AsyncIterator[str]:
        """The names of all streams, sorted; much cheaper than `streams`.

        Args:
            subject: Only streams with a subject that matches this one; None is all.
        """
        async for name in self._api.pages("STREAM.NAMES", "streams", {"subject": subject} if subject else None):
            yield name

    async def find_stream_name_by_subject(self, subject: str) -> str:
        """Name of the stream that stores a subject.

        Args:
            subject: The subject.

        Raises:
            NotFoundError: No stream stores it.
        """
        answer = await self._api.request("STREAM.NAMES", {"subject": subject})
        if not answer.get("streams"):
            raise await self._no_stream_of(subject)
        name: str = answer["streams"][0]
        return name

    async def _no_stream_of(self, subject: str) -> StreamNotFoundError:
        """The error of a subject that no stream stores, with the nearest stored subject."""
        stored: list[str] = []
        with suppress(Error):
            answer = await self._api.request("STREAM.LIST", {"offset": 0}, timeout=min(self._api.timeout, NAMES_WAIT))
            stored = [one for info in answer.get("streams") or () for one in info["config"].get("subjects") or ()]
        near = did_you_mean(nearest_name(subject, stored))
        return StreamNotFoundError(
            message=f"no stream stores the subject {subject!r}; correct it, or create a stream that lists it with"
            f" add_stream{near}",
            subject=subject,
        )


async def purge(api: JetStreamApi, name: str, *, seq: int | None, subject: str | None, keep: int | None) -> Any:
    """Removes messages of a stream; returns the server's response, which has their number."""
    # nats-py and the server interpret 0 as not given.
    if subject == "":
        raise ValueError("subject must not be empty: leave it out to purge all messages")
    request = models.StreamPurgeRequest(seq=seq or None, filter=subject, keep=keep or None)
    return await api.request(f"STREAM.PURGE.{checked_name('stream', name)}", request.as_dict())
