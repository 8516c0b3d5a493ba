"""Publishing one message, with its acknowledgement."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jetarrow.core import errors
from jetarrow.jetstream.errors import APIError, NoStreamResponseError
from jetarrow.nats.client.client import NO_DESCRIPTION
from jetarrow.nats.client.errors import NoRespondersError
from jetarrow.nats.client.message import Headers
from jetarrow.nats.jetstream.api.client import _error_from_response, is_error_response
from jetarrow.nats.jetstream.publish_ack import PublishAck

if TYPE_CHECKING:
    from jetarrow.nats.jetstream.jetstream import JetStream

_new = object.__new__
# The retries of the native publisher.
RETRY_ATTEMPTS, RETRY_WAIT = 2, 0.25


async def publish(
    js: JetStream,
    subject: str,
    payload: bytes,
    *,
    headers: Mapping[str, str | list[str]] | Headers | None,
    retry_attempts: int,
    retry_wait: float,
    timeout: float,
) -> PublishAck:
    """Publishes a message and waits until a stream has acknowledged it. See `JetStream.publish`."""
    if isinstance(headers, Headers):
        headers = dict(headers.items())
    if js._strict or (retry_attempts, retry_wait) != (RETRY_ATTEMPTS, RETRY_WAIT):
        return await _publish_by_request(js, subject, payload, headers, retry_attempts, retry_wait, timeout)
    context = js._context
    publisher = context._publisher
    try:
        if publisher is None or not publisher.is_usable_here():
            publisher = context._new_publisher()
        while (future := publisher.publish(publisher.loop, subject, payload, headers, None, timeout)) is None:
            await publisher.room(timeout)
        publisher.linger()
        ack = await future
    except NoStreamResponseError:
        raise NoRespondersError("503", NO_DESCRIPTION, subject) from None
    except APIError as error:
        fields: Any = {"code": error.code, "err_code": error.err_code, "description": error.description}
        raise _error_from_response(fields) from None
    except errors.TimeoutError:
        raise TimeoutError("Request timeout") from None
    except errors.ConnectionClosedError:
        raise RuntimeError("Connection is closed") from None
    # Without `__init__`, which takes longer: absent fields have the defaults of the class.
    result = _new(PublishAck)
    result.stream, result.sequence = ack.stream, ack.seq
    if ack.duplicate:
        result.duplicate = True
    if ack.domain is not None:
        result.domain = ack.domain
    if ack.val is not None:
        result.value = ack.val
    if ack.batch_id is not None:
        result.batch_id, result.batch_size = ack.batch_id, ack.batch_size
    return result


async def _publish_by_request(
    js: JetStream,
    subject: str,
    payload: bytes,
    headers: Any,
    retry_attempts: int,
    retry_wait: float,
    timeout: float,
) -> PublishAck:
    """Publishes by a request, for other retries than those of the native publisher."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while True:
        left = deadline - loop.time()
        if left <= 0:
            raise TimeoutError("Publish operation exceeded total timeout")
        try:
            answer = json.loads((await js.client.request(subject, payload, headers=headers, timeout=left)).data)
        except NoRespondersError:
            if retry_attempts <= 0:
                raise
            if deadline - loop.time() <= retry_wait:
                raise TimeoutError("Publish operation exceeded total timeout before retry") from None
            retry_attempts -= 1
            await asyncio.sleep(retry_wait)
            continue
        if is_error_response(answer):
            raise _error_from_response(answer["error"])
        return PublishAck.from_response(answer, strict=js._strict)
