"""Verbs of a stream's handle for single messages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from jetarrow.jetstream import models
from jetarrow.jetstream.manage import Management


class StreamMessages:
    """Reads and deletes single messages without a consumer."""

    _manage: Management
    name: str

    async def get_msg(
        self,
        seq: int | None = None,
        subject: str | None = None,
        direct: bool = False,
        next: bool = False,
    ) -> models.RawStreamMsg:
        """Reads one message.

        Args:
            seq: Its sequence.
            subject: Instead of a sequence: the last message of this subject (wildcards allowed).
            direct: Read from any replica or mirror instead of the stream's leader: cheaper, but the newest messages may
                be missing. The stream must have `allow_direct`. `headers` then includes the server's (`Nats-Sequence`
                and so on).
            next: With `subject`: the first message of the subject at `seq` or after.

        Raises:
            NotFoundError: The message or the stream does not exist.
            BadRequestError: Neither sequence nor subject.
            NoRespondersError: `direct`, and the stream does not exist or does not have `allow_direct`.
            ValueError: The name is invalid.
        """
        return await self._manage.get_msg(self.name, seq, subject, direct, next)

    async def get_last_msg(self, subject: str, direct: bool = False) -> models.RawStreamMsg:
        """Reads the last message of a subject.

        Args:
            subject: The subject.
            direct: As for `get_msg`.

        Raises:
            NotFoundError: The message or the stream does not exist.
            NoRespondersError: `direct`, and the stream does not exist or does not have `allow_direct`.
            ValueError: The name is invalid.
        """
        return await self._manage.get_last_msg(self.name, subject, direct)

    async def direct_get(self, seq: int) -> models.RawStreamMsg:
        """Reads one message from any replica or mirror, on which the newest messages may be missing.

        Args:
            seq: Its sequence.

        Raises:
            NotFoundError: The message does not exist.
            NoRespondersError: The stream does not exist, or does not have `allow_direct`.
        """
        return await self._manage.get_msg(self.name, seq, direct=True)

    async def direct_get_last_for_subject(self, subject: str) -> models.RawStreamMsg:
        """Reads the last message of a subject (wildcards allowed), as `direct_get`.

        Args:
            subject: The subject.
        """
        return await self._manage.get_msg(self.name, subject=subject, direct=True)

    async def get_last_msgs_for(
        self,
        subjects: str | Sequence[str],
        *,
        up_to_seq: int | None = None,
        up_to_time: datetime | str | None = None,
        batch: int | None = None,
    ) -> list[models.RawStreamMsg]:
        """Reads the last message of each subject; as `js.get_last_msgs_for`. Server 2.11 or later.

        Args:
            subjects: One or several, wildcards allowed.
            up_to_seq: The state as of this sequence; None is now.
            up_to_time: The state as of this time.
            batch: Most messages; None is all.
        """
        return await self._manage.get_last_msgs_for(
            self.name, subjects, up_to_seq=up_to_seq, up_to_time=up_to_time, batch=batch
        )

    async def get_batch(
        self,
        batch: int,
        seq: int | None = None,
        *,
        subject: str | None = None,
        start_time: datetime | str | None = None,
        max_bytes: int | None = None,
    ) -> list[models.RawStreamMsg]:
        """Reads messages in order, without a consumer; as `js.get_batch`. Server 2.11 or later.

        Args:
            batch: Most messages.
            seq: The first sequence; None is the first of the stream.
            subject: Only this subject, wildcards allowed; None is all.
            start_time: Instead of `seq`: messages at or after this time.
            max_bytes: Most bytes of them; None is no limit.
        """
        return await self._manage.get_batch(
            self.name, batch, seq, subject=subject, start_time=start_time, max_bytes=max_bytes
        )

    async def counter(self, subject: str) -> int:
        """The value of a counter, see `js.increment`; 0 before its first increment.

        Args:
            subject: The counter.

        Raises:
            NotFoundError: The stream does not exist.
            ValueError: The subject's last message is not one of a counter.
        """
        return await self._manage.counter(self.name, subject)

    async def delete_msg(self, seq: int, erase: bool = True) -> bool:
        """Deletes one message.

        Args:
            seq: The message's sequence.
            erase: Whether to overwrite its bytes in storage; False only marks it as deleted, which is faster.

        Raises:
            NotFoundError: The stream does not exist.
            ServerError: The message does not exist, or the stream does not allow it (`deny_delete`, `sealed`).
            ValueError: The name is invalid.
        """
        return await self._manage.delete_msg(self.name, seq, erase)
