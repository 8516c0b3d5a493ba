"""Backup and restore of streams, compatible with the `nats` tool."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from jetarrow.core.errors import Error, TimeoutError
from jetarrow.core.session import Session
from jetarrow.core.subscription import Subscription
from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi, status_error
from jetarrow.jetstream.api_requests import describe_request
from jetarrow.jetstream.manage.backup_files import DATA, META, BackupWriter, verified_meta
from jetarrow.jetstream.manage.restore import Report, Restore
from jetarrow.jetstream.models.values import checked_name

if TYPE_CHECKING:
    from jetarrow.jetstream.option_types import StreamOptions

# Bytes of a chunk that the server sends.
_CHUNK = 128 * 1024


@dataclass
class StreamBackup:
    """A saved stream.

    Attributes:
        directory: The folder.
        config: The configuration of the stream.
        state: The state of the stream.
        bytes: Size of the compressed file.
        sha256: SHA-256 of the file, in hexadecimal.
    """

    directory: Path
    config: models.StreamConfig
    state: models.StreamState
    bytes: int
    sha256: str


class BackupVerbs:
    """Backup and restore of streams."""

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
                complete. Only this user may read its files.
            consumers: Whether to save its consumers with their positions.
            check: Whether the server checks every message first.
            progress: Called with (bytes so far, None) for every chunk received.

        Raises:
            NotFoundError: The stream does not exist.
            ServerError: The server cannot make a backup; older ones cannot back up a stream in memory.
            APIError: The server aborted the backup.
            TimeoutError: The server sent nothing for the context's timeout.
            Error: Another backup is being written into the folder, or a part was lost in a disconnect.
            OSError: A file cannot be written.
            ValueError: The name is invalid.
        """
        verb = f"STREAM.SNAPSHOT.{checked_name('stream', name)}"
        session = self._api.session
        writer = BackupWriter(directory)
        try:
            breaks = session.native.breaks
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
                async for chunk in _chunks(session, sub, verb, timeout=self._api.timeout, breaks=breaks):
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
        """Creates a stream from a backup, as `nats stream restore` does.

        The data is first compared with its hash in the backup; a backup of the `nats` tool, or of an earlier version,
        has none. If a restore fails, the incomplete stream that this call created is removed, and anything else that
        remains is named in the error.

        Args:
            directory: The folder of `backup_stream`, or of `nats stream backup`.
            progress: Called with (bytes sent, bytes of the backup) for every chunk.
            **changes: Fields of `StreamConfig` that override the saved ones, such as `num_replicas` or `placement`. The
                name cannot be changed.

        Returns:
            The restored stream.

        Raises:
            DigestMismatchError: The hash of the data differs from the one in the backup. Nothing was sent.
            BadRequestError: A stream of that name exists, or the server rejects the configuration.
            APIError: The server cannot restore it, or restored an incomplete stream, which was removed.
            FileNotFoundError: The folder has no backup.
            ValueError: The metadata is invalid, or `name` differs from that of the backup.
            TimeoutError: The server sent nothing in time.
        """
        folder = Path(directory)
        with (folder / DATA).open("rb") as file:
            meta = await verified_meta(self._api.session, folder, file)
            try:
                saved = models.StreamConfig.from_response(meta["config"])
            except (ValueError, TypeError, KeyError):
                raise ValueError(f"could not restore from '{folder}': {META} is not the metadata of a backup") from None
            config = saved.evolve(**changes)
            if config.name != saved.name:
                raise ValueError(
                    f"could not restore stream {saved.name!r} as {config.name!r}: the name cannot be changed; leave"
                    " name out"
                )
            restore = Restore(self._api, checked_name("stream", config.name), config.as_dict(), meta["state"])
            return await restore.run(file, progress)


async def _chunks(
    session: Session, sub: Subscription, verb: str, *, timeout: float, breaks: int
) -> AsyncIterator[bytes]:
    """The chunks of a backup. Each one is acknowledged; the server limits the unacknowledged ones.

    Args:
        session: The session.
        sub: Its subscription.
        verb: The request, for errors.
        timeout: Most seconds until the next chunk.
        breaks: Number of disconnects before the request.
    """
    for number in count(1):
        try:
            msg = await sub.next_msg(timeout)
        except TimeoutError:
            raise TimeoutError(
                f"{describe_request(verb).text}: the server sent nothing for {timeout:g} s before the backup was"
                " complete; try again"
            ) from None
        # The server goes on after a disconnect. Its replies are numbered, but for the last one.
        place = msg.reply.rpartition(".")[2]
        if session.native.breaks != breaks or sub.dropped or (place and place != str(number)):
            raise Error(f"{describe_request(verb).text}: a part was lost on the way; try again")
        data = bytes(msg.data)
        if not data:
            headers = msg.headers or {}
            status = headers.get(models.Header.STATUS)
            if status is not None and not status.startswith("204"):
                raise status_error(verb, None, headers)
            return
        yield data
        if msg.reply:
            room = session.send(msg.reply, b"", "", None)
            if room is not None:
                await session.run(room)
