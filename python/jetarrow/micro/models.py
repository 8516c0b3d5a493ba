"""Responses of services to PING, INFO and STATS."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

INFO_RESPONSE_TYPE = "io.nats.micro.v1.info_response"
PING_RESPONSE_TYPE = "io.nats.micro.v1.ping_response"
STATS_RESPONSE_TYPE = "io.nats.micro.v1.stats_response"


@dataclass
class EndpointStats:
    """Statistics of an endpoint since the start or the last reset of the service.

    Attributes:
        name: Name of the endpoint.
        subject: Its subject.
        queue_group: Its queue group; empty if every instance receives every request.
        num_requests: Number of received requests.
        num_errors: Number of requests answered with an error.
        processing_time: Total nanoseconds in the handler.
        average_processing_time: Nanoseconds per request.
        last_error: The last error. Default: none.
        data: Result of the service's `stats_handler`. Default: none.
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
        """Builds it from the response of a service of any client.

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
        """Converts it to the fields of the response."""
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
    """Description of an endpoint.

    Attributes:
        name: Name of the endpoint.
        subject: Its subject.
        queue_group: Its queue group; empty if every instance receives every request.
        metadata: Values by key. Default: none.
    """

    name: str
    subject: str
    queue_group: str
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> EndpointInfo:
        """Builds it from the response of a service of any client.

        Args:
            data: The decoded JSON.
        """
        return cls(data["name"], data["subject"], data.get("queue_group", ""), data.get("metadata") or {})

    def to_dict(self) -> dict[str, Any]:
        """Converts it to the fields of the response."""
        return {
            "name": self.name,
            "subject": self.subject,
            "queue_group": self.queue_group,
            "metadata": self.metadata,
        }


class ServiceIdentity:
    """Identity of a service instance."""

    id: str
    name: str
    version: str
    metadata: dict[str, str]


@dataclass
class ServicePing(ServiceIdentity):
    """Response to PING.

    Attributes:
        id: Id of the instance.
        name: Name of the service.
        version: Its semantic version.
        metadata: Values by key. Default: none.
        type: Type of the response.
    """

    id: str
    name: str
    version: str
    metadata: dict[str, str] = field(default_factory=dict)
    type: str = PING_RESPONSE_TYPE

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ServicePing:
        """Builds it from the response of a service of any client.

        Args:
            data: The decoded JSON.
        """
        return cls(data["id"], data["name"], data["version"], data.get("metadata") or {})

    def to_dict(self) -> dict[str, Any]:
        """Converts it to the fields of the response."""
        return {
            "type": self.type,
            "id": self.id,
            "name": self.name,
            "version": self.version,
            "metadata": self.metadata,
        }


@dataclass
class ServiceStats(ServiceIdentity):
    """Response to STATS.

    Attributes:
        id: Id of the instance.
        name: Name of the service.
        version: Its semantic version.
        started: Time of the start or the last reset: UTC, without a time zone, as in nats-py.
        endpoints: Statistics of each endpoint. Default: none.
        metadata: Values by key. Default: none.
        type: Type of the response.
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
        """Builds it from the response of a service of any client.

        Args:
            data: The decoded JSON.
        """
        return cls(
            id=data["id"],
            name=data["name"],
            version=data["version"],
            # Go services send nanoseconds, which are truncated to microseconds.
            started=datetime.fromisoformat(data["started"]).astimezone(UTC).replace(tzinfo=None),
            endpoints=[EndpointStats.from_dict(endpoint) for endpoint in data.get("endpoints") or ()],
            metadata=data.get("metadata") or {},
        )

    def to_dict(self) -> dict[str, Any]:
        """Converts it to the fields of the response."""
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
    """Response to INFO.

    Attributes:
        name: Name of the service.
        id: Id of the instance.
        version: Its semantic version.
        description: Description for users. Default: none.
        endpoints: Description of each endpoint. Default: none.
        metadata: Values by key. Default: none.
        type: Type of the response.
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
        """Builds it from the response of a service of any client.

        Args:
            data: The decoded JSON; unknown fields are ignored.
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
        """Converts it to the fields of the response."""
        return {
            "type": self.type,
            "id": self.id,
            "name": self.name,
            "version": self.version,
            "description": self.description,
            "endpoints": [endpoint.to_dict() for endpoint in self.endpoints],
            "metadata": self.metadata,
        }
