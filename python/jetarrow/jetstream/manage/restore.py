"""Transfer of a backup to the server, and removal of the incomplete stream of a failed transfer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from jetarrow._jetarrow import Msg
from jetarrow.core.errors import ConnectionClosedError, Error, NoRespondersError, TimeoutError
from jetarrow.jetstream import models
from jetarrow.jetstream.api import STREAM_NAME_IN_USE, JetStreamApi
from jetarrow.jetstream.errors import APIError, BadRequestError, NotFoundError
from jetarrow.jetstream.models.error_codes import ErrorCode
from jetarrow.jetstream.not_found import expect_not_found

Report = Callable[[int, int | None], object]

# Bytes of a chunk.
_CHUNK = 64 * 1024
# Seconds that the server may take to create the stream after the transfer; it sends nothing meanwhile.
_RESTORING = 3600.0
# Seconds after a failure within which the stream appears, or grows, if the server still restores it.
_CLEANUP = 3.0
# Seconds between two requests for the stream's state.
_POLL = 0.1
# Errors of the server that show that the existing stream was not created by this call.
_NOT_OURS = {STREAM_NAME_IN_USE, ErrorCode.STREAM_NAME_EXIST_RESTORE_FAILED}


class Restore:
    """Sends a backup to the server, which creates the stream.

    Args:
        api: JetStream's API.
        name: The stream.
        config: Its configuration, as it is sent.
        state: Its state when the backup was made, as it is in the backup.
    """

    def __init__(self, api: JetStreamApi, name: str, config: dict[str, Any], state: dict[str, Any]) -> None:
        self._api = api
        self._name = name
        self._config = config
        self._state = state
        self._verb = f"STREAM.RESTORE.{name}"
        self._subject = ""
        # The end of the backup was sent; the server has responded; its response was that it created the stream.
        self._is_sent = self._is_answered = self._is_made = False

    async def run(self, file: IO[bytes], progress: Report | None) -> models.StreamInfo:
        """Sends the backup and waits for the stream.

        Args:
            file: The data, at its beginning.
            progress: As in `restore_stream`.

        Returns:
            The stream.
        """
        try:
            answer = await self._api.request(self._verb, {"config": self._config, "state": self._state})
        except BadRequestError as error:
            await self._explain(error)
            raise
        self._subject = answer["deliver_subject"]
        try:
            await self._send(file, progress)
            info = await self._end()
            if not self._is_whole(info):
                raise self._too_short(info)
        except BaseException as error:
            await self._clean_up(error)
            raise
        return models.StreamInfo.from_response(info)

    async def _explain(self, error: BadRequestError) -> None:
        """Adds to the error that the existing stream is a part of this backup, left by an earlier restore."""
        with suppress(Error):
            info = await self._info() if error.err_code in _NOT_OURS else None
            if info is not None and self._is_ours(info) and not self._is_whole(info):
                error._set_message(
                    f"{error.message}; stream {self._name!r} is a part of this backup, up to sequence"
                    f" {info['state']['last_seq']} of {self._state.get('last_seq')}, which an earlier restore left or"
                    " still creates: delete it if none is running"
                )

    async def _send(self, file: IO[bytes], progress: Report | None) -> None:
        session = self._api.session
        total = os.fstat(file.fileno()).st_size
        size = min(_CHUNK, session.native.max_payload)
        while chunk := file.read(size):
            answer = await session.request(self._subject, chunk, self._api.timeout, None)
            if answer.data:
                self._is_answered = True
                self._checked(answer)
            if progress is not None:
                progress(file.tell(), total)

    async def _end(self) -> dict[str, Any]:
        """Sends the end of the backup; returns the server's response, or the stream if only the response was lost."""
        self._is_sent = True
        try:
            answer = await self._api.session.request(self._subject, b"", _RESTORING, None)
        except Error:
            info = None
            with suppress(Error):
                info = await self._poll()
            if info is None or not (self._is_whole(info) and self._is_ours(info)):
                raise
            return info
        self._is_answered = True
        info = self._checked(answer)
        self._is_made = True
        return info

    def _checked(self, msg: Msg) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = json.loads(msg.data)
            failure = answer.get("error")
        except (ValueError, AttributeError):
            raise APIError(
                message=f"could not restore stream {self._name!r}: the response is not a JSON object; check whether"
                " another program answers"
            ) from None
        if failure:
            named = {"stream": self._name, **failure}
            raise APIError.build(named, message=f"could not restore stream {self._name!r}")
        return answer

    def _is_whole(self, info: dict[str, Any]) -> bool:
        """Whether a stream has the last sequence of the backup, which limits and deletions do not change."""
        return int(info["state"]["last_seq"]) >= int(self._state.get("last_seq") or 0)

    def _is_ours(self, info: dict[str, Any]) -> bool:
        """Whether a stream has the backup's first message, identified by its time in nanoseconds."""
        state = info["state"]
        return bool(state["messages"]) and all(
            state.get(name) == self._state.get(name) for name in ("first_seq", "first_ts")
        )

    def _too_short(self, info: dict[str, Any]) -> APIError:
        return APIError(
            message=f"could not restore stream {self._name!r}: the server has it up to sequence"
            f" {info['state']['last_seq']}, and the backup was made at sequence {self._state.get('last_seq')}: its data"
            " is cut; use another backup"
        )

    async def _clean_up(self, error: BaseException) -> None:
        """Ends the transfer, removes an incomplete stream, and adds to the error what remains."""
        try:
            left = await self._remove(error)
        except Exception as failure:
            left = (
                f"a part of stream {self._name!r} may remain ({failure}): check stream_info({self._name!r}), and delete"
                " an incomplete stream before the next restore"
            )
        if not left:
            return
        if isinstance(error, Error):
            error._set_message(f"{error.message or error._describe()}; {left}")
        else:
            error.add_note(left)

    async def _remove(self, error: BaseException) -> str:
        """Removes an incomplete stream that this call created; returns the text of what remains."""
        if not self._is_sent and not self._is_answered:
            with suppress(TimeoutError):
                await self._abort()
        may_finish = not self._is_answered
        # After a cancellation the caller waits for one request only.
        info = await (self._poll() if may_finish and isinstance(error, Error) else self._info())
        if info is None:
            if not may_finish:
                return ""
            return f"the server has not responded, so stream {self._name!r} may still appear"
        state = info["state"]
        there = f"stream {self._name!r} exists with {state['messages']} messages up to sequence {state['last_seq']}"
        is_ours = self._is_made or (self._is_ours(info) and getattr(error, "err_code", None) not in _NOT_OURS)
        if is_ours and self._is_whole(info) and may_finish:
            return f"{there}, which is the whole backup"
        if is_ours:
            await self._api.request(f"STREAM.DELETE.{self._name}")
            return ""
        return f"{there}; it was not removed, because another client may have created it"

    async def _abort(self) -> None:
        """Aborts the transfer, and waits until the server has ended it.

        The server creates the stream while it receives the chunks, and does not remove an incomplete one.
        """
        try:
            answer = await self._api.session.request(self._subject, b"", _CLEANUP, None)
        except NoRespondersError:
            # The server has ended the transfer.
            self._is_answered = True
        else:
            self._is_answered = True
            with suppress(APIError):
                self._checked(answer)
                # Only the response to the last chunk was lost.
                self._is_made = True

    async def _poll(self) -> dict[str, Any] | None:
        """The stream when it is complete, or has not grown for `_CLEANUP` seconds; None if it does not exist."""
        session = self._api.session
        deadline, reached = session.now() + _CLEANUP, -1
        while True:
            info: dict[str, Any] | None = None
            failure: Error | None = None
            try:
                info = await self._info()
            except ConnectionClosedError:
                raise
            except Error as error:
                failure = error
            if info is not None:
                if self._is_whole(info):
                    return info
                if (last := int(info["state"]["last_seq"])) > reached:
                    deadline, reached = session.now() + _CLEANUP, last
            if session.now() >= deadline:
                if failure is not None:
                    raise failure
                return info
            await session.sleep(_POLL)

    async def _info(self) -> dict[str, Any] | None:
        with expect_not_found(), suppress(NotFoundError):
            info: dict[str, Any] = await self._api.request(
                f"STREAM.INFO.{self._name}", timeout=min(self._api.timeout, _CLEANUP)
            )
            return info
        return None
