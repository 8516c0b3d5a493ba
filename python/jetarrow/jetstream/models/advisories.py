"""Events that JetStream reports about itself."""

# ruff: noqa: RUF009  # Choice, Duration and the like are descriptors, not shared mutable defaults

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from jetarrow.jetstream.models.base import Base, Choice, Codec, Moment
from jetarrow.jetstream.models.values import Choices


class AdvisoryKind(Choices):
    """The kinds of events that JetStream reports about itself."""

    API = "api_audit"
    STREAM_ACTION = "stream_action"
    CONSUMER_ACTION = "consumer_action"
    SNAPSHOT_CREATE = "snapshot_create"
    SNAPSHOT_COMPLETE = "snapshot_complete"
    RESTORE_CREATE = "restore_create"
    RESTORE_COMPLETE = "restore_complete"
    MAX_DELIVER = "max_deliver"
    TERMINATED = "terminated"
    ACK = "consumer_ack"
    STREAM_LEADER_ELECTED = "stream_leader_elected"
    STREAM_QUORUM_LOST = "stream_quorum_lost"
    CONSUMER_LEADER_ELECTED = "consumer_leader_elected"
    CONSUMER_QUORUM_LOST = "consumer_quorum_lost"
    MISSED_HEARTBEAT = "missed_heartbeat"
    # Second names of the same events.
    DELIVERY_EXCEEDED = "max_deliver"
    DELIVERY_TERMINATED = "terminated"

    @classmethod
    def _missing_(cls, value: object) -> Any:
        # Some descriptions of nats.js name the kinds by the subjects they come on.
        if isinstance(value, str) and value.startswith("$JS.EVENT."):
            last = value.rpartition(".")[2].lower()
            if last == "action":
                value = "_".join(value.lower().split(".")[-2:])
            else:
                value = {"max_deliveries": "max_deliver", "msg_terminated": "terminated"}.get(last, last)
        return super()._missing_(value)


@dataclass
class Advisory(Base):
    """An event that JetStream reports about itself.

    Attributes:
        kind: What it is; a plain string where this version does not know the kind.
        type: The server's full name of it, for example `io.nats.jetstream.advisory.v1.max_deliver`.
        id: The event's own id.
        timestamp: When it happened, UTC.
        stream: The stream that it is about, where it is about one.
        consumer: The consumer that it is about, where it is about one.
        data: All of it, as the server sent it.
    """

    _codecs: ClassVar[dict[str, Codec]] = {"timestamp": Moment()}

    kind: Choice[AdvisoryKind] = Choice(AdvisoryKind)
    type: str = ""
    id: str = ""
    timestamp: datetime | None = None
    stream: str | None = None
    consumer: str | None = None
    data: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_response(cls, resp: Mapping[str, Any]) -> Advisory:
        """Read an event; its kind is the last part of its `type`."""
        names = ("type", "id", "timestamp", "stream", "consumer")
        picked = {name: resp[name] for name in names if name in resp}
        return super().from_response(
            {**picked, "kind": str(resp.get("type", "")).rpartition(".")[2], "data": dict(resp)}
        )
