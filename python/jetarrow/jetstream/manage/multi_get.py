"""Batched direct gets, without a consumer (ADR-31)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from jetarrow.core.arguments import check_whole
from jetarrow.core.request import open_request
from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi, status_error
from jetarrow.jetstream.manage.messages import from_direct
from jetarrow.jetstream.models.values import checked_name, to_rfc3339
from jetarrow.jetstream.server_features import require_version

_END = "204"
_NOTHING = "404"


class MultiGetVerbs:
    """Verbs that get many messages. The stream must have `allow_direct`."""

    _api: JetStreamApi

    async def get_last_msgs_for(
        self,
        stream_name: str,
        subjects: str | Sequence[str],
        *,
        up_to_seq: int | None = None,
        up_to_time: datetime | str | None = None,
        batch: int | None = None,
    ) -> list[models.RawStreamMsg]:
        """Reads the last message of each subject, in the order of their sequences. Server 2.11 or later.

        Args:
            stream_name: The stream.
            subjects: One or several, wildcards allowed. The server accepts at most 1,024 matching subjects.
            up_to_seq: Last messages at or before this sequence. None is now.
            up_to_time: Last messages at or before this time: a datetime or RFC 3339 text (local time if it has no
                zone).
            batch: Most messages; None is all.

        Returns:
            The messages; subjects without a message are left out.

        Raises:
            APIError: The server rejects the request, for example because of too many subjects (code 413).
            NoRespondersError: The stream does not exist, or does not have `allow_direct`.
            UnsupportedError: The server is older than 2.11.
            TimeoutError: The response is incomplete.
            ValueError: The name is invalid, or both `up_to_seq` and `up_to_time`.
        """
        if up_to_seq is not None and up_to_time is not None:
            raise ValueError("give up_to_seq or up_to_time, not both")
        query: dict[str, Any] = {"multi_last": [subjects] if isinstance(subjects, str) else list(subjects)}
        if up_to_seq is not None:
            query["up_to_seq"] = up_to_seq
        if up_to_time is not None:
            query["up_to_time"] = to_rfc3339(up_to_time)
        return await self._all(stream_name, query, batch)

    async def get_batch(
        self,
        stream_name: str,
        batch: int,
        seq: int | None = None,
        *,
        subject: str | None = None,
        start_time: datetime | str | None = None,
        max_bytes: int | None = None,
    ) -> list[models.RawStreamMsg]:
        """Reads messages in order, without a consumer. Server 2.11 or later.

        Args:
            stream_name: The stream.
            batch: Most messages.
            seq: The first sequence; None is the first of the stream.
            subject: Only this subject, wildcards allowed; None is all.
            start_time: Instead of `seq`: messages at or after this time (local time if it has no zone).
            max_bytes: Most bytes of them; None is no limit.

        Returns:
            The messages; an empty list if there are none.

        Raises:
            APIError: The server rejects the request.
            NoRespondersError: The stream does not exist, or does not have `allow_direct`.
            UnsupportedError: The server is older than 2.11.
            TimeoutError: The response is incomplete.
            ValueError: The name or a number is invalid, or both `seq` and `start_time`.
        """
        check_whole(batch=batch, max_bytes=max_bytes)
        if batch < 1 or (max_bytes is not None and max_bytes < 1):
            raise ValueError("batch and max_bytes must be at least 1")
        if seq is not None and start_time is not None:
            raise ValueError("give seq or start_time, not both")
        query: dict[str, Any] = {}
        if start_time is not None:
            query["start_time"] = to_rfc3339(start_time)
        else:
            query["seq"] = max(seq or 1, 1)
        if subject is not None:
            query["next_by_subj"] = subject
        if max_bytes is not None:
            query["max_bytes"] = max_bytes
        return await self._all(stream_name, query, batch)

    async def _all(self, stream: str, query: dict[str, Any], batch: int | None) -> list[models.RawStreamMsg]:
        """The messages of a query, in one or more requests."""
        require_version(self._api, "multi-get", (2, 11))
        found: list[models.RawStreamMsg] = []
        while True:
            if batch is not None:
                query["batch"] = batch - len(found)
            page, end = await self._page(stream, query)
            found += page
            more = page and int(end.get(models.Header.NUM_PENDING, 0)) > 0 and "max_bytes" not in query
            if not more or (batch is not None and len(found) >= batch):
                return found
            query.pop("start_time", None)
            query["seq"] = (page[-1].seq or 0) + 1
            if "multi_last" in query and "up_to_seq" not in query and models.Header.UP_TO_SEQUENCE in end:
                # The state of the same sequence, without messages stored since.
                query.pop("up_to_time", None)
                query["up_to_seq"] = int(end[models.Header.UP_TO_SEQUENCE])

    async def _page(self, stream: str, query: dict[str, Any]) -> tuple[list[models.RawStreamMsg], dict[str, str]]:
        """The messages of one response, and the headers of its end."""
        api = self._api
        verb = f"DIRECT.GET.{checked_name('stream', stream)}"
        found: list[models.RawStreamMsg] = []
        async with open_request(api.session, f"{api.prefix}.{verb}", json.dumps(query)) as answers:
            while True:
                msg = await answers.next_msg(api.timeout)
                headers = msg.headers or {}
                if models.Header.SEQUENCE in headers:
                    found.append(from_direct(msg, headers))
                    continue
                status = headers.get(models.Header.STATUS, "")
                if status == "503":
                    raise await api.no_direct_responders(verb, query)
                if status not in (_END, _NOTHING):
                    raise status_error(verb, query, headers)
                return found, headers
