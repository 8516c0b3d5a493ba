"""Advisories of JetStream: events that the server publishes."""

# ruff: noqa: RUF009  # Choice, Duration and the like are descriptors, not shared mutable defaults

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from jetarrow.jetstream.models.base import Base, Choice, Codec, Moment
from jetarrow.jetstream.models.values import Choices


class AdvisoryKind(Choices):
    """Kinds of JetStream's advisories."""

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
    # Aliases of the same events.
    DELIVERY_EXCEEDED = "max_deliver"
    DELIVERY_TERMINATED = "terminated"

    @classmethod
    def _missing_(cls, value: object) -> Any:
        # Some documents of nats.js name the kinds by the subjects of the events.
        if isinstance(value, str) and value.startswith("$JS.EVENT."):
            last = value.rpartition(".")[2].lower()
            if last == "action":
                value = "_".join(value.lower().split(".")[-2:])
            else:
                value = {"max_deliveries": "max_deliver", "msg_terminated": "terminated"}.get(last, last)
        return super()._missing_(value)


@dataclass
class Advisory(Base):
    """An advisory of JetStream.

    Attributes:
        kind: Its kind; a plain string if this version does not have the kind.
        type: The server's full name of the kind, for example `io.nats.jetstream.advisory.v1.max_deliver`.
        id: The event's own id.
        timestamp: Time of the event, UTC.
        stream: The stream of the event, if it has one.
        consumer: The consumer of the event, if it has one.
        data: The whole event, as the server sent it.
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
        """Parse an event; its kind is the last part of its `type`."""
        names = ("type", "id", "timestamp", "stream", "consumer")
        picked = {name: resp[name] for name in names if name in resp}
        return super().from_response(
            {**picked, "kind": str(resp.get("type", "")).rpartition(".")[2], "data": dict(resp)}
        )
