"""Reading and deleting of single messages without a consumer."""

from __future__ import annotations

import base64
from typing import Any

from jetarrow._jetarrow import Msg
from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi, status_error
from jetarrow.jetstream.models.values import checked_name


class MessageVerbs:
    """Verbs that get and delete single messages."""

    _api: JetStreamApi

    async def get_msg(
        self,
        stream_name: str,
        seq: int | None = None,
        subject: str | None = None,
        direct: bool | None = False,
        next: bool | None = False,
    ) -> models.RawStreamMsg:
        """Reads one message of a stream.

        Args:
            stream_name: The stream.
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
        checked_name("stream", stream_name)
        query: dict[str, Any] = {}
        if next:
            query["next_by_subj"] = subject
        elif subject:
            query["last_by_subj"] = subject
        if seq and (next or not subject):
            query["seq"] = seq
        if not direct:
            answer = await self._api.request(f"STREAM.MSG.GET.{stream_name}", query)
            return _stored(answer["message"], stream_name)
        if subject and seq is None and not next and not {"*", ">"} & set(subject.split(".")):
            # The request's subject contains the subject, so that permissions can refer to it.
            return await self._direct(f"DIRECT.GET.{stream_name}.{subject}", None)
        return await self._direct(f"DIRECT.GET.{stream_name}", query)

    async def get_last_msg(self, stream_name: str, subject: str, direct: bool | None = False) -> models.RawStreamMsg:
        """Reads the last message of a subject (wildcards allowed).

        Args:
            stream_name: The stream.
            subject: The subject.
            direct: As for `get_msg`.

        Raises:
            NotFoundError: The message or the stream does not exist.
            NoRespondersError: `direct`, and the stream does not exist or does not have `allow_direct`.
            ValueError: The name is invalid.
        """
        return await self.get_msg(stream_name, subject=subject, direct=direct)

    async def delete_msg(self, stream_name: str, seq: int, erase: bool = True) -> bool:
        """Deletes one message.

        Args:
            stream_name: The stream.
            seq: The message's sequence.
            erase: Whether to overwrite its bytes in storage; False only marks it as deleted, which is faster.

        Raises:
            NotFoundError: The stream does not exist.
            ServerError: The message does not exist, or the stream does not allow it (`deny_delete`, `sealed`).
            ValueError: The name is invalid.
        """
        body: dict[str, Any] = {"seq": seq}
        if not erase:
            body["no_erase"] = True
        answer = await self._api.request(f"STREAM.MSG.DELETE.{checked_name('stream', stream_name)}", body)
        return bool(answer["success"])

    async def _direct(self, verb: str, query: dict[str, Any] | None) -> models.RawStreamMsg:
        answer = await self._api.direct(verb, query)
        headers = answer.headers or {}
        # Only a stored message has a sequence. It may have headers with the names of a status message.
        if models.Header.SEQUENCE not in headers:
            raise status_error(verb, query, headers)
        return from_direct(answer, headers)


def from_direct(answer: Msg, headers: dict[str, str]) -> models.RawStreamMsg:
    """The message of a direct get. The last value of each header is the server's."""
    msg = models.RawStreamMsg.from_response(
        {
            "subject": headers.get(models.Header.SUBJECT),
            "seq": int(headers[models.Header.SEQUENCE]),
            "stream": headers.get(models.Header.STREAM),
            "time": headers.get(models.Header.TIME_STAMP),
        }
    )
    msg.data = answer.data or None
    msg.headers = headers
    msg.headers_all = answer.headers_all
    return msg


def _stored(answer: dict[str, Any], stream: str) -> models.RawStreamMsg:
    """The message of a JSON response."""
    msg = models.RawStreamMsg.from_response({**answer, "stream": stream})
    # As in nats-py, an empty payload is None.
    msg.data = base64.b64decode(answer["data"]) if answer.get("data") else None
    if msg.hdrs:
        msg.headers_all = _headers(base64.b64decode(msg.hdrs)) or None
        msg.headers = msg.headers_all and {name: values[-1] for name, values in msg.headers_all.items()}
    return msg


def _headers(block: bytes) -> dict[str, list[str]]:
    """Parses a stored block of headers: a line with the version, then `Name: value` lines."""
    headers: dict[str, list[str]] = {}
    for line in block.decode("utf-8", "replace").split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers.setdefault(name, []).append(value.strip(" \t"))
    return headers
