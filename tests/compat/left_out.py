"""Public names of nats-py that jetarrow lacks or defines differently, with reasons. The keys are patterns of `fnmatch`.

`test_surface.py` fails for every difference that is not listed, and for every entry that is no longer needed.
"""

from __future__ import annotations

import fnmatch

WIRE = "belongs to nats-py's own protocol code; the native core speaks the protocol here"
OWN_USE = "imported there for nats-py's own use; it is found under the same name where it is defined"
MADE_FOR_YOU = "its objects are made by the client, never by hand, so the constructor is not part of the face"


PINGS = "a ping every 10 s, not every 120 s: a dead link is found within 20 s"

LEFT_OUT: dict[str, str] = {
    "nats.protocol*": WIRE,
    "nats.aio.transport*": WIRE,
    "nats.aio.client.*Transport": WIRE,
    "nats.aio.client.*_OP": WIRE,
    "nats.aio.client.P[IO]NG*": WIRE,
    "nats.aio.client.PROTOCOL": WIRE,
    "nats.aio.client.Parser": WIRE,
    "nats.aio.client.EMPTY": WIRE,
    "nats.aio.client.prot_command": WIRE,
    "nats.aio.client.DEFAULT_BUFFER_SIZE": WIRE,
    "nats.aio.client.MAX_CONTROL_LINE_SIZE": WIRE,
    "nats.aio.client.STATUS_MSG_LEN": WIRE,
    "nats.js.client.NO_RESPONDERS_STATUS": WIRE,
    "nats.*.NATS_HDR_LINE*": WIRE,
    "nats.micro.service.*Manager(*)": "a base, of which nobody makes an object; a protocol there",
    "nats.micro.service.ServiceIdentity(*)": "a base, of which nobody makes an object; a protocol there",
    "nats.js.object_store.StopIterSentinel": OWN_USE,
    "nats.js.object_store.ObjectStore.ObjectWatcher.STOP_ITER": "how its queue ends; here the iteration ends",
    "nats.js.object_store.ObjectStore.ObjectWatcher(*)": MADE_FOR_YOU,
    "nats.js.kv.logger": OWN_USE,
    "nats.js.kv.KeyValue.KeyWatcher(*)": MADE_FOR_YOU,
    "nats.js.kv.KeyValue.watchall(kwargs)": "its keywords are those of watch, and have their names here",
    "nats.js.kv.KeyValue.keys(kwargs)": "ignored there; here a word that means nothing is a TypeError",
    "nats.js.client.JetStreamContext.PullSubscription(*)": MADE_FOR_YOU,
    "nats.js.client.JetStreamContext.PushSubscription(*)": MADE_FOR_YOU,
    "nats.js.errors.api": OWN_USE,
    "nats.aio.client.ServerVersion.parse_version": "it is parsed when it is made; the parts are there at once",
    "nats.aio.client.DEFAULT_MAX_PAYLOAD_SIZE": "every server says its limit: nc.max_payload",
    "nats.aio.client.DEFAULT_PING_INTERVAL": PINGS,
    "nats.aio.client.Client.connect(ping_interval)": PINGS,
    "nats.js.client.JetStreamContext(publish_async_max_pending)": "None, as max_ack_inflight is another name for it;"
    " both stand for 5000, nats-py has 4000",
    "nats.js.api.PubAck(duplicate)": "False, as the seeds have it; nats-py's None is as false",
    "nats.js.client.JetStreamContext.PullSubscription.fetch(batch)": "None stands for 1, so that giving two of batch,"
    " batch_size and max_messages is seen",
}


def left_out(path: str) -> str | None:
    """The entry of the list that covers a path."""
    return next((pattern for pattern in LEFT_OUT if fnmatch.fnmatchcase(path, pattern)), None)
