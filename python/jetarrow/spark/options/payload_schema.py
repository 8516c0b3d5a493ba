"""The schema of Avro and Protobuf payloads: given as an option, or fetched from a schema registry."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from jetarrow.spark._core import latest_schema, payload_schema

from .choices import Payload
from .option_texts import OptionTexts, invalid
from .secrets import Secret, warn_of_literals

if TYPE_CHECKING:
    from jetarrow.jetstream.literals import PayloadFormat
    from jetarrow.jetstream.registry import SchemaRegistry

_SECRETS = ("registryPassword", "registryToken")
PAYLOAD_SCHEMA_OPTIONS = (
    "payloadSchema",
    "payloadMessage",
    "registry",
    "registrySubject",
    "registryUser",
    *_SECRETS,
    "registryCaFile",
)


@dataclass(frozen=True)
class RegistryOptions:
    """A schema registry. Secrets are references that every worker resolves.

    Attributes:
        url: Its address, without credentials.
        user: User of basic authentication. Default: none.
        secrets: Password or token, and the CA.
    """

    url: str
    user: str | None
    secrets: tuple[Secret, ...]

    def open(self) -> SchemaRegistry:
        """Return the registry, one for each process.

        Raises:
            ValueError: A reference cannot be resolved in this process, or is not allowed.
        """
        return _opened(self)


@lru_cache(maxsize=16)
def _opened(options: RegistryOptions) -> SchemaRegistry:
    from jetarrow.core.tls import TLS
    from jetarrow.jetstream.registry import SchemaRegistry

    found = {secret.option: secret.resolve() for secret in options.secrets}
    ca = found.get("registryCaFile")
    return SchemaRegistry(
        options.url,
        user=options.user,
        password=found.get("registryPassword"),
        token=found.get("registryToken"),
        tls=None if ca is None else TLS(ca=ca),
    )


@dataclass(frozen=True)
class PayloadSchemaOptions:
    """The schema of Avro or Protobuf payloads.

    Attributes:
        payload: avro or protobuf.
        schema: The JSON of an Avro schema, or a descriptor set and the name of a message. None: it is the latest one of
            `subject`.
        registry: The registry whose ids payloads begin with; None for payloads without an id.
        subject: A subject of the registry.
    """

    payload: Payload
    schema: str | tuple[bytes, str] | None
    registry: RegistryOptions | None
    subject: str | None

    def known(self) -> PayloadSchemaOptions:
        """Return the options with a schema, which is fetched from the registry if none was given.

        Raises:
            SchemaRegistryError: The registry does not answer.
        """
        if self.schema is not None or self.registry is None or self.subject is None:
            return self
        schema = latest_schema(self.registry.open(), self.subject, self.payload.value)
        return PayloadSchemaOptions(self.payload, schema, self.registry, self.subject)

    def native(self) -> Any:
        """Return the argument `schema=` of a read.

        Raises:
            ValueError: A secret of the registry cannot be resolved in this process.
        """
        registry = None if self.registry is None else self.registry.open()
        return payload_schema(cast("PayloadFormat", self.payload.value), self.schema, registry)

    def warn(self) -> None:
        """Warn once per process and option if a secret was given instead of a reference."""
        if self.registry is not None:
            warn_of_literals(tuple(secret for secret in self.registry.secrets if secret.option in _SECRETS))


def payload_schema_options(options: OptionTexts, payload: Payload) -> PayloadSchemaOptions | None:
    """Read and check the options of the schema; None with another payload.

    Args:
        options: The options of the user.
        payload: The option `payload`.

    Raises:
        ValueError: An option is missing, not valid, or excluded by another one.
    """
    given = [name for name in PAYLOAD_SCHEMA_OPTIONS if options.text(name) is not None]
    if payload not in (Payload.AVRO, Payload.PROTOBUF):
        if given:
            raise invalid(given[0], "needs payload=avro or protobuf", "one of the two with it")
        return None
    text, message, subject = (options.text(name) for name in ("payloadSchema", "payloadMessage", "registrySubject"))
    registry = _registry(options)
    if text is None and (registry is None or subject is None):
        raise invalid(
            "payloadSchema",
            f"is required with payload={payload}, unless there are registry and registrySubject",
            "the JSON of an Avro schema, or the base64 of a descriptor set",
        )
    if text is not None and subject is not None:
        raise invalid("registrySubject", "does not go with 'payloadSchema'", "one of the two")
    if (payload == Payload.PROTOBUF and text is not None) != (message is not None):
        raise invalid("payloadMessage", "goes with payload=protobuf and 'payloadSchema'", "the full name of a message")
    if text is None or message is None:
        return PayloadSchemaOptions(payload, text, registry, subject)
    try:
        descriptors = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise invalid("payloadSchema", "is not base64", "the base64 of a descriptor set") from None
    return PayloadSchemaOptions(payload, (descriptors, message), registry, subject)


def _registry(options: OptionTexts) -> RegistryOptions | None:
    url, user = options.text("registry"), options.text("registryUser")
    secrets = {name: options.raw(name) for name in _SECRETS} | {"registryCaFile": options.text("registryCaFile")}
    found = {name: text for name, text in secrets.items() if text is not None}
    if url is None:
        for name in ("registrySubject", "registryUser", *found):
            if options.text(name) is not None:
                raise invalid(name, "needs 'registry'", "the URL of a schema registry")
        return None
    if "@" in url:
        raise invalid("registry", "contains credentials, which Spark shows", "registryUser and registryPassword")
    if "registryToken" in found and user is not None:
        raise invalid("registryToken", "does not go with 'registryUser'", "one of the two")
    if ("registryPassword" in found) != (user is not None):
        raise invalid("registryPassword", "and 'registryUser' go together", "both or neither")
    return RegistryOptions(url, user, tuple(Secret(name, text) for name, text in found.items()))
