"""Streams as files: backups that the `nats` tool reads too, and the other way round."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Unpack

from jetarrow._jetarrow import Msg
from jetarrow.core.errors import TimeoutError
from jetarrow.core.session import Session
from jetarrow.core.subscription import Subscription
from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.errors import APIError
from jetarrow.jetstream.names import checked

if TYPE_CHECKING:
    from jetarrow.jetstream.option_types import StreamOptions

# The two files of a backup: what the stream was, and its content as the server makes and reads it (tar, S2 compressed).
META = "backup.json"
DATA = "stream.tar.s2"

# Bytes of one message while a backup is made, and while it is restored.
_CHUNK = 128 * 1024
_RESTORE_CHUNK = 64 * 1024
# Seconds until the server has made a stream of what it was sent; it says nothing meanwhile.
_RESTORING = 3600.0

Report = Callable[[int, int | None], object]


@dataclass
class StreamBackup:
    """What was saved of a stream.

    Attributes:
        directory: The folder.
        config: How the stream is configured.
        state: What was in it.
        bytes: Bytes of the file, which is compressed.
    """

    directory: Path
    config: models.StreamConfig
    state: models.StreamState
    bytes: int


class BackupVerbs:
    """Back streams up, and restore them."""

    _api: JetStreamApi

    async def backup_stream(
        self,
        name: str,
        directory: str | os.PathLike[str],
        *,
        consumers: bool = False,
        check: bool = False,
        progress: Report | None = None,
    ) -> StreamBackup:
        """Saves a stream in a folder, as `nats stream backup` does. The stream can be used meanwhile.

        Args:
            name: The stream.
            directory: The folder, which is made where it is not there. A backup in it is replaced when the new one is
                complete.
            consumers: Also its consumers with their positions.
            check: The server checks every message first.
            progress: Called with (bytes so far, None) for every part that comes.

        Raises:
            NotFoundError: There is no such stream.
            ServerError: The server cannot make a backup; older ones have none of a stream in memory.
            APIError: It gave up.
            TimeoutError: The server went silent for the context's timeout.
            OSError: A file cannot be written.
            ValueError: The name is not valid.
        """
        verb = f"STREAM.SNAPSHOT.{checked('stream', name)}"
        session = self._api.session
        folder = _made(directory)
        part = folder / f"{DATA}.part"
        sub = Subscription(session, session.next_sid(), session.native.new_inbox())
        await sub._open()
        try:
            answer = await self._api.request(
                verb,
                {"deliver_subject": sub.subject, "no_consumers": not consumers, "jsck": check, "chunk_size": _CHUNK},
            )
            with part.open("wb") as file:
                async for chunk in _chunks(session, sub, verb, self._api.timeout):
                    file.write(chunk)
                    if progress is not None:
                        progress(file.tell(), None)
                size = file.tell()
            meta = {"config": answer["config"], "state": answer["state"]}
            part.replace(folder / DATA)
            (folder / META).write_text(json.dumps(meta, indent=2), "utf-8")
        finally:
            sub._end()
            part.unlink(missing_ok=True)
        return StreamBackup(
            folder,
            models.StreamConfig.from_response(answer["config"]),
            models.StreamState.from_response(answer["state"]),
            size,
        )

    async def restore_stream(
        self,
        directory: str | os.PathLike[str],
        *,
        progress: Report | None = None,
        **changes: Unpack[StreamOptions],
    ) -> models.StreamInfo:
        """Makes a stream of a backup, as `nats stream restore` does.

        Args:
            directory: The folder of `backup_stream`, or of `nats stream backup`.
            progress: Called with (bytes sent, bytes of the backup) for every part.
            **changes: Fields of `StreamConfig` that the stream is to have instead of those saved, such as
                `num_replicas` or `placement`. The name cannot change.

        Returns:
            The stream. It is there when this returns.

        Raises:
            BadRequestError: There is a stream of that name, or the server refuses the configuration.
            APIError: The server cannot restore it.
            FileNotFoundError: There is no backup in the folder.
            ValueError: The backup is not one, or `name` is another than the backup's.
            TimeoutError: The server went silent.
        """
        folder = Path(directory)
        try:
            meta: Any = json.loads((folder / META).read_text("utf-8"))
            saved = models.StreamConfig.from_response(meta["config"])
        except (ValueError, TypeError, KeyError):
            raise ValueError(f"{folder / META} is not that of a backup") from None
        config = saved.evolve(**changes)
        if config.name != saved.name:
            raise ValueError(f"the backup is that of stream {saved.name!r}; a restored one cannot be {config.name!r}")
        verb = f"STREAM.RESTORE.{checked('stream', config.name)}"
        with (folder / DATA).open("rb") as file:
            answer = await self._api.request(verb, {"config": config.as_dict(), "state": meta["state"]})
            info = await self._send(verb, answer["deliver_subject"], file, progress)
        return models.StreamInfo.from_response(info)

    async def _send(self, verb: str, subject: str, file: IO[bytes], progress: Report | None) -> Any:
        """Sends a backup; the server's answer to its end."""
        session = self._api.session
        total = os.fstat(file.fileno()).st_size
        size = min(_RESTORE_CHUNK, session.native.max_payload)
        while chunk := file.read(size):
            answered = await session.request(subject, chunk, self._api.timeout, None)
            if answered.data:
                _raise_failure(verb, answered)
            if progress is not None:
                progress(file.tell(), total)
        last = await session.request(subject, b"", _RESTORING, None)
        return _raise_failure(verb, last)


def _made(directory: str | os.PathLike[str]) -> Path:
    """The folder, which is there."""
    folder = Path(directory)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _raise_failure(verb: str, msg: Msg) -> Any:
    """The answer, if it is not an error."""
    try:
        answer: Any = json.loads(msg.data)
        failure = answer.get("error")
    except (ValueError, AttributeError):
        raise APIError(message=f"{verb}: the answer is not a JSON object, so it is not a server's") from None
    if failure:
        raise APIError.build(failure, message=f"{verb} failed")
    return answer


async def _chunks(session: Session, sub: Subscription, verb: str, timeout: float) -> AsyncIterator[bytes]:
    """The parts of a backup, each acknowledged; the server sends some ahead of that."""
    while True:
        try:
            msg = await sub.next_msg(timeout)
        except TimeoutError:
            raise TimeoutError(f"{verb}: the server went silent before the backup was complete") from None
        data = bytes(msg.data)
        if not data:
            headers = msg.headers or {}
            status = headers.get(models.Header.STATUS)
            if status is not None and not status.startswith("204"):
                failure = {"code": int(status) if status.isdecimal() else None}
                said = headers.get(models.Header.DESCRIPTION)
                raise APIError.build({**failure, "description": said}, message=f"{verb} failed")
            return
        yield data
        if msg.reply:
            room = session.send(msg.reply, b"", "", None)
            if room is not None:
                await session.run(room)
