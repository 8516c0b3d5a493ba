"""Streams as files: backups that the `nats` tool reads too, and the other way round."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from jetarrow.core.errors import TimeoutError
from jetarrow.core.session import Session
from jetarrow.core.subscription import Subscription
from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.errors import APIError
from jetarrow.jetstream.manage.backup_files import DATA, META, BackupWriter, verified_meta
from jetarrow.jetstream.manage.restore import Report, Restore
from jetarrow.jetstream.models.values import checked_name

if TYPE_CHECKING:
    from jetarrow.jetstream.option_types import StreamOptions

# Bytes of one message while a backup is made.
_CHUNK = 128 * 1024


@dataclass
class StreamBackup:
    """What was saved of a stream.

    Attributes:
        directory: The folder.
        config: How the stream is configured.
        state: What was in it.
        bytes: Bytes of the file, which is compressed.
        sha256: SHA-256 of the file, in hexadecimal.
    """

    directory: Path
    config: models.StreamConfig
    state: models.StreamState
    bytes: int
    sha256: str


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
            directory: The folder, which is created if it is missing. A backup in it is replaced when the new one is
                complete: until then it is the old one. Only this user may read its files.
            consumers: Also its consumers with their positions.
            check: The server checks every message first.
            progress: Called with (bytes so far, None) for every part that comes.

        Raises:
            NotFoundError: There is no such stream.
            ServerError: The server cannot make a backup; older ones have none of a stream in memory.
            APIError: It gave up.
            TimeoutError: The server went silent for the context's timeout.
            Error: Another backup is being written into the folder.
            OSError: A file cannot be written.
            ValueError: The name is not valid.
        """
        verb = f"STREAM.SNAPSHOT.{checked_name('stream', name)}"
        session = self._api.session
        writer = BackupWriter(directory)
        try:
            sub = Subscription(session, session.next_sid(), session.native.new_inbox())
            await sub._open()
            try:
                answer = await self._api.request(
                    verb,
                    {
                        "deliver_subject": sub.subject,
                        "no_consumers": not consumers,
                        "jsck": check,
                        "chunk_size": _CHUNK,
                    },
                )
                async for chunk in _chunks(session, sub, verb, self._api.timeout):
                    writer.write(chunk)
                    if progress is not None:
                        progress(writer.size, None)
            finally:
                sub._end()
            digest = await writer.commit(session, answer["config"], answer["state"])
        finally:
            writer.close()
        return StreamBackup(
            writer.folder,
            models.StreamConfig.from_response(answer["config"]),
            models.StreamState.from_response(answer["state"]),
            writer.size,
            digest,
        )

    async def restore_stream(
        self,
        directory: str | os.PathLike[str],
        *,
        progress: Report | None = None,
        **changes: Unpack[StreamOptions],
    ) -> models.StreamInfo:
        """Makes a stream of a backup, as `nats stream restore` does.

        The data is first compared with its hash in the backup; a backup of the `nats` tool, or of an earlier build, has
        none. A restore that fails leaves no part of the stream: one that this call made is removed, and anything
        else that is left is named in the error.

        Args:
            directory: The folder of `backup_stream`, or of `nats stream backup`.
            progress: Called with (bytes sent, bytes of the backup) for every part.
            **changes: Fields of `StreamConfig` that the stream is to have instead of those saved, such as
                `num_replicas` or `placement`. The name cannot change.

        Returns:
            The stream. It is there when this returns.

        Raises:
            DigestMismatchError: The data has not the hash that the backup names. Nothing was sent.
            BadRequestError: There is a stream of that name, or the server refuses the configuration.
            APIError: The server cannot restore it, or made a part of the stream of it, which was removed.
            FileNotFoundError: There is no backup in the folder.
            ValueError: The backup is not one, or `name` is another than the backup's.
            TimeoutError: The server went silent.
        """
        folder = Path(directory)
        with (folder / DATA).open("rb") as file:
            meta = await verified_meta(self._api.session, folder, file)
            try:
                saved = models.StreamConfig.from_response(meta["config"])
            except (ValueError, TypeError, KeyError):
                raise ValueError(f"{folder / META} is not that of a backup") from None
            config = saved.evolve(**changes)
            if config.name != saved.name:
                raise ValueError(
                    f"the backup is that of stream {saved.name!r}; a restored one cannot be {config.name!r}"
                )
            restore = Restore(self._api, checked_name("stream", config.name), config.as_dict(), meta["state"])
            return await restore.run(file, progress)


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
