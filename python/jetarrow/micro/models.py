"""What services say about themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

INFO_RESPONSE_TYPE = "io.nats.micro.v1.info_response"
PING_RESPONSE_TYPE = "io.nats.micro.v1.ping_response"
STATS_RESPONSE_TYPE = "io.nats.micro.v1.stats_response"


@dataclass
class EndpointStats:
    """What an endpoint has done since the service was started, or reset.

    Attributes:
        name: The endpoint.
        subject: What it listens to.
        queue_group: Its queue group; empty where every instance answers.
        num_requests: Requests that it was given.
        num_errors: Requests that it answered with an error.
        processing_time: Nanoseconds that its handler took, in all.
        average_processing_time: Nanoseconds a request.
        last_error: Its last error. Default: none.
        data: What the service's `stats_handler` adds. Default: nothing.
    """

    name: str
    subject: str
    queue_group: str
    num_requests: int
    num_errors: int
    processing_time: int
    average_processing_time: int
    last_error: str | None = None
    data: Any | None = None

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> EndpointStats:
        """Read what a service said, of any client.

        Args:
            data: The decoded JSON.
        """
        return cls(
            name=data["name"],
            subject=data["subject"],
            queue_group=data.get("queue_group", ""),
            num_requests=data["num_requests"],
            num_errors=data["num_errors"],
            last_error=data.get("last_error"),
            processing_time=data["processing_time"],
            average_processing_time=data["average_processing_time"],
            data=data.get("data"),
        )

    def to_dict(self) -> dict[str, Any]:
        """Convert to what is sent."""
        return {
            "name": self.name,
            "subject": self.subject,
            "queue_group": self.queue_group,
            "num_requests": self.num_requests,
            "num_errors": self.num_errors,
            "last_error": self.last_error or "",
            "processing_time": self.processing_time,
            "average_processing_time": self.average_processing_time,
            "data": self.data,
        }


@dataclass
class EndpointInfo:
    """What an endpoint is.

    Attributes:
        name: The endpoint.
        subject: What it listens to.
        queue_group: Its queue group; empty where every instance answers.
        metadata: Texts by name. Default: none.
    """

    name: str
    subject: str
    queue_group: str
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> EndpointInfo:
        """Read what a service said, of any client.

        Args:
            data: The decoded JSON.
        """
        return cls(data["name"], data["subject"], data.get("queue_group", ""), data.get("metadata") or {})

    def to_dict(self) -> dict[str, Any]:
        """Convert to what is sent."""
        return {
            "name": self.name,
            "subject": self.subject,
            "queue_group": self.queue_group,
            "metadata": self.metadata,
        }


class ServiceIdentity:
    """Which instance of a service it is."""

    id: str
    name: str
    version: str
    metadata: dict[str, str]


@dataclass
class ServicePing(ServiceIdentity):
    """The answer to a ping.

    Attributes:
        id: The instance's own.
        name: What all instances share.
        version: Its semantic version.
        metadata: Texts by name. Default: none.
        type: Of the answer.
    """

    id: str
    name: str
    version: str
    metadata: dict[str, str] = field(default_factory=dict)
    type: str = PING_RESPONSE_TYPE

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ServicePing:
        """Read what a service said, of any client.

        Args:
            data: The decoded JSON.
        """
        return cls(data["id"], data["name"], data["version"], data.get("metadata") or {})

    def to_dict(self) -> dict[str, Any]:
        """Convert to what is sent."""
        return {
            "type": self.type,
            "id": self.id,
            "name": self.name,
            "version": self.version,
            "metadata": self.metadata,
        }


@dataclass
class ServiceStats(ServiceIdentity):
    """What a service has done.

    Attributes:
        id: The instance's own.
        name: What all instances share.
        version: Its semantic version.
        started: When it was started, or reset: UTC, without a zone, as nats-py has it.
        endpoints: What each endpoint has done. Default: none.
        metadata: Texts by name. Default: none.
        type: Of the answer.
    """

    id: str
    name: str
    version: str
    started: datetime
    endpoints: list[EndpointStats] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    type: str = STATS_RESPONSE_TYPE

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ServiceStats:
        """Read what a service said, of any client.

        Args:
            data: The decoded JSON.
        """
        return cls(
            id=data["id"],
            name=data["name"],
            version=data["version"],
            # Go's have nine digits of a second, which are cut to six.
            started=datetime.fromisoformat(data["started"]).astimezone(UTC).replace(tzinfo=None),
            endpoints=[EndpointStats.from_dict(endpoint) for endpoint in data.get("endpoints") or ()],
            metadata=data.get("metadata") or {},
        )

    def to_dict(self) -> dict[str, Any]:
        """Convert to what is sent."""
        return {
            "type": self.type,
            "name": self.name,
            "id": self.id,
            "version": self.version,
            "started": self.started.isoformat(timespec="milliseconds") + "Z",
            "endpoints": [endpoint.to_dict() for endpoint in self.endpoints],
            "metadata": self.metadata,
        }


@dataclass
class ServiceInfo:
    """What a service is.

    Attributes:
        name: What all instances share.
        id: The instance's own.
        version: Its semantic version.
        description: A text for people. Default: none.
        endpoints: What each endpoint is. Default: none.
        metadata: Texts by name. Default: none.
        type: Of the answer.
    """

    name: str
    id: str
    version: str
    description: str | None = None
    endpoints: list[EndpointInfo] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    type: str = INFO_RESPONSE_TYPE

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ServiceInfo:
        """Read what a service said, of any client.

        Args:
            data: The decoded JSON; fields unknown here are left out.
        """
        return cls(
            id=data["id"],
            name=data["name"],
            version=data["version"],
            description=data.get("description"),
            endpoints=[EndpointInfo.from_dict(endpoint) for endpoint in data.get("endpoints") or ()],
            metadata=data.get("metadata") or {},
            type=data.get("type", INFO_RESPONSE_TYPE),
        )

    def to_dict(self) -> dict[str, Any]:
        """Convert to what is sent."""
        return {
            "type": self.type,
            "id": self.id,
            "name": self.name,
            "version": self.version,
            "description": self.description,
            "endpoints": [endpoint.to_dict() for endpoint in self.endpoints],
            "metadata": self.metadata,
        }
