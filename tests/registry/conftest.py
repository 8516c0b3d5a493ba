"""A schema registry for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from .server import RegistryServer, running


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with running(RegistryServer()) as server:
        yield server


@pytest.fixture
def confluent(registry: RegistryServer) -> SchemaRegistryClient:
    """Confluent's client of the registry."""
    return SchemaRegistryClient({"url": registry.url})
