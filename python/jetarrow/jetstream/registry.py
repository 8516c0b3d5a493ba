"""Schema registries with Confluent's REST interface: `registry=` of Avro and Protobuf payloads."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from jetarrow import _jetarrow
from jetarrow.core.arguments import duration
from jetarrow.core.session import Session
from jetarrow.core.tls import TLS, native_tls
from jetarrow.jetstream.binary_schema import BinaryColumns, NativeSchema, binary_schema
from jetarrow.jetstream.errors import SchemaRegistryError
from jetarrow.jetstream.literals import BINARY_FORMATS, PayloadFormat

# By address, if it was given as text, so that a client fetches each schema once.
_BY_URL: WeakKeyDictionary[Session, dict[str, SchemaRegistry]] = WeakKeyDictionary()

# Key in the metadata of a schema of columns.
_PAYLOAD = b"jetarrow.payload"


class SchemaRegistry:
    """A schema registry with Confluent's REST interface, for `registry=`.

    A payload begins with a byte 0 and the id of its schema in four bytes (Confluent's wire format). Each schema is
    fetched once, with those that it refers to. Redirects are not followed.

    Args:
        url: Its address, `https://registry:8081`, which may contain a path, and user and password.
        user: User of basic authentication.
        password: Its password.
        token: A bearer token, instead of them.
        tls: CAs and client certificate for `https://`, as `connect(tls=)`. Default: the system's CAs.
        timeout: Seconds or a timedelta for an answer. Lost connections, and statuses 429 and 5xx, are tried again
            within it. Default: 10.
        subject: Subject of published schemas. Default: the full name of the record or message.
        auto_register: Whether `publish_table` registers a schema that the subject does not have. False: that is a
            `SchemaRegistryError`.

    Raises:
        ValueError: The address or an option is not valid.
        OSError: A file of `tls` cannot be read.
    """

    def __init__(
        self,
        url: str,
        *,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        tls: ssl.SSLContext | TLS | None = None,
        timeout: float | timedelta = 10.0,
        subject: str | None = None,
        auto_register: bool = True,
    ) -> None:
        self._subject, self._register = subject, auto_register
        self._native = _jetarrow.SchemaRegistry(
            url,
            user=user,
            password=password,
            token=token,
            tls=native_tls(tls, None, False),
            timeout=duration("timeout", timeout),
        )

    @property
    def url(self) -> str:
        """The address without user and password."""
        return self._native.url

    def __repr__(self) -> str:
        return f"SchemaRegistry({self.url!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("could not pickle a SchemaRegistry: it has credentials; create one where it is used")


@dataclass(frozen=True)
class RegisteredSchema(BinaryColumns):
    """The schema of columns, and the registry that has the schemas of the payloads.

    Attributes:
        schema: The schema, as `binary_schema` returns it.
        registry: The registry.
    """

    schema: NativeSchema
    registry: SchemaRegistry

    @property
    def native(self) -> _jetarrow.SchemaRegistry:
        """The registry as the native core takes it."""
        return self.registry._native

    def __arrow_c_schema__(self) -> object:
        return _jetarrow.columns_of_schema(self.schema)


def registry_of(
    session: Session | None, given: SchemaRegistry | str | None, format: PayloadFormat
) -> SchemaRegistry | None:
    """Returns the argument `registry=` as an object, the same one for the same address of a connection.

    Args:
        session: The connection; None makes an object for each address.
        given: The argument.
        format: The format of the payloads.

    Raises:
        TypeError: It is neither a text nor a `SchemaRegistry`.
        ValueError: The format has no schemas in a registry, or the address is not valid.
    """
    if given is None:
        return None
    if format not in BINARY_FORMATS:
        raise ValueError(f'registry= is for format "avro" and "protobuf"; leave it out with format {format!r}')
    if isinstance(given, SchemaRegistry):
        return given
    if not isinstance(given, str):
        raise TypeError(f"registry must be a URL or a jetarrow.SchemaRegistry, not {type(given).__name__}")
    known = {} if session is None else _BY_URL.setdefault(session, {})
    # `setdefault` is atomic: all threads get the object of the first.
    return known.get(given) or known.setdefault(given, SchemaRegistry(given))


def payload_schema(
    format: PayloadFormat, schema: object, registry: SchemaRegistry | None
) -> NativeSchema | RegisteredSchema | None:
    """Returns the schema of a binary format as the native core takes it; None if the registry has it.

    Args:
        format: "avro" or "protobuf".
        schema: The argument `schema=`.
        registry: The registry, if the payloads name their schemas.

    Raises:
        TypeError: The schema is of a wrong type.
    """
    if isinstance(schema, RegisteredSchema):
        return schema
    if registry is None:
        return binary_schema(format, schema)
    return None if schema is None else RegisteredSchema(binary_schema(format, schema), registry)


def with_payload(columns: Any, payloads: object) -> Any:
    """Returns a pyarrow schema whose metadata have the schema of a registry that its columns are of.

    Args:
        columns: The columns.
        payloads: The schema of the payloads; columns of other ones are unchanged.
    """
    if not isinstance(payloads, RegisteredSchema):
        return columns
    schema = payloads.schema
    given = schema if isinstance(schema, str) else [base64.b64encode(schema[0]).decode(), schema[1]]
    return columns.with_metadata({**(columns.metadata or {}), _PAYLOAD: json.dumps(given)})


def payload_of(columns: Any, registry: SchemaRegistry | None) -> RegisteredSchema | None:
    """Returns the schema of `with_payload`; None if there is none.

    Args:
        columns: The pyarrow schema.
        registry: The registry of the payloads.
    """
    found = (columns.metadata or {}).get(_PAYLOAD)
    if found is None or registry is None:
        return None
    schema = json.loads(found)
    native = schema if isinstance(schema, str) else (base64.b64decode(schema[0]), schema[1])
    return RegisteredSchema(native, registry)


def without_schema(registry: SchemaRegistry, format: PayloadFormat) -> SchemaRegistryError:
    """Returns the error for messages of which none names a schema.

    Args:
        registry: The registry.
        format: "avro" or "protobuf".
    """
    return SchemaRegistryError(
        f"schema registry {registry.url}: no payload names a usable {format} schema that it has; give schema=",
        url=registry.url,
    )


async def first_schema(
    registry: SchemaRegistry,
    batch: _jetarrow.Batch,
    format: PayloadFormat,
    wait: Callable[[_jetarrow.Call[Any]], Awaitable[Any]],
) -> RegisteredSchema | None:
    """Returns the schema of the first payload in a batch that names a usable one.

    Args:
        registry: The registry.
        batch: Messages with their payloads.
        format: "avro" or "protobuf".
        wait: Waits for a native call.
    """
    found = await wait(registry._native.schema_of(batch, format))
    return None if found is None else RegisteredSchema(found, registry)


async def frame_of(
    registry: SchemaRegistry,
    format: PayloadFormat,
    schema: object,
    run: Callable[[_jetarrow.Call[Any]], Awaitable[Any]],
) -> tuple[NativeSchema, bytes]:
    """Returns the schema of payloads to publish, and what precedes each of them.

    Args:
        registry: The registry.
        format: "avro" or "protobuf".
        schema: The argument `schema=`; None for the latest one of the registry's subject.
        run: Waits for a native call.

    Raises:
        ValueError: There is neither a schema nor a subject.
        SchemaRegistryError: The registry refuses the schema, or cannot be reached.
    """
    if schema is not None:
        native = binary_schema(format, schema)
        frame: bytes = await run(registry._native.frame(native, registry._subject, registry._register))
        return native, frame
    if registry._subject is None:
        raise ValueError(
            "registry= needs schema=, or a jetarrow.SchemaRegistry(url, subject=...) whose latest schema is used"
        )
    latest: tuple[NativeSchema, bytes] = await run(registry._native.latest(registry._subject, format))
    return latest
