"""A registry that is away, slow, wrong, or wants credentials; and its certificates."""

from __future__ import annotations

import copy
import pickle
import ssl
from base64 import b64encode
from pathlib import Path
from typing import Any

import jetarrow
import pyarrow as pa
import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import SchemaRegistryError

from ..connect.conftest import Authority
from .server import Answer, RegistryServer, running

SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
TABLE = pa.table({"id": [1, 2]})
SECRET = "s3cr3t"


@pytest.fixture
async def filled(js: JetStreamContext, stream: str, registry: RegistryServer) -> str:
    """A stream with two framed messages; the registry has not been asked since."""
    result = await js.publish_table(TABLE, f"{stream}.a", format="avro", schema=SCHEMA, registry=registry.url)
    result.raise_for_errors()
    registry.requests.clear()
    return stream


async def read(js: JetStreamContext, stream: str, registry: Any) -> list[dict[str, Any]]:
    table = await js.read(stream, format="avro", schema=SCHEMA, registry=registry).read_all()
    return pa.table(table)["value"].to_pylist()


async def failure(js: JetStreamContext, stream: str, registry: Any) -> SchemaRegistryError:
    with pytest.raises(SchemaRegistryError) as caught:
        await read(js, stream, registry)
    assert SECRET not in f"{caught.value}{caught.value!r}{registry!r}"
    return caught.value


@pytest.mark.parametrize("answer", [Answer(500), Answer(503, b"<html>"), Answer(429), Answer(0, breaks=True)])
async def test_what_passes_is_tried_again(
    js: JetStreamContext, filled: str, registry: RegistryServer, answer: Answer
) -> None:
    registry.prepared["/schemas/ids/1"] = [answer, answer]
    assert await read(js, filled, jetarrow.SchemaRegistry(registry.url)) == TABLE.to_pylist()
    assert registry.requests == {"GET /schemas/ids/1": 3}


async def test_followers_that_are_behind(js: JetStreamContext, filled: str, registry: RegistryServer) -> None:
    absent = Answer(404, {"error_code": 40403, "message": "Schema 1 not found"})
    registry.prepared["/schemas/ids/1"] = [absent, absent]
    assert await read(js, filled, jetarrow.SchemaRegistry(registry.url)) == TABLE.to_pylist()


@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        (Answer(500, {"error_code": 50001, "message": "Store error\nat Main.java"}), 50001, "status 500: Store error"),
        (Answer(403, {"error_code": 40301}), 40301, "status 403 (the credentials have no permission)"),
        (Answer(404, b"not here"), None, "status 404"),
        (Answer(307, b"", {"Location": "http://127.0.0.1:1/secret"}), None, "redirects are not followed"),
        (Answer(200, b"<html>"), None, "its answer is not that of a schema registry"),
        (Answer(200, {"id": 5}), None, "its answer is not that of a schema registry"),
    ],
)
async def test_what_stays_is_an_error(
    js: JetStreamContext, filled: str, registry: RegistryServer, answer: Answer, code: int | None, text: str
) -> None:
    registry.prepared["/schemas/ids/1"] = [answer] * 1000
    error = await failure(js, filled, jetarrow.SchemaRegistry(registry.url, timeout=2.5))
    assert f"schema registry {registry.url}: no answer to use about schema 1: " in str(error)
    assert text in str(error)
    assert "Main.java" not in str(error)
    assert (error.url, error.schema_id, error.code) == (registry.url, 1, code)
    assert error.status in (answer.status, None)


async def test_a_failure_is_not_kept(js: JetStreamContext, filled: str, registry: RegistryServer) -> None:
    place = jetarrow.SchemaRegistry(registry.url, timeout=10)
    registry.prepared["/schemas/ids/1"] = [Answer(403)]
    await failure(js, filled, place)
    assert await read(js, filled, place) == TABLE.to_pylist()


async def test_no_registry_there(js: JetStreamContext, filled: str, closed_port: int) -> None:
    url = f"http://127.0.0.1:{closed_port}"
    error = await failure(js, filled, jetarrow.SchemaRegistry(url, timeout=3))
    assert (error.url, error.status) == (url, None)
    assert "refused" in str(error)


async def test_a_slow_registry(js: JetStreamContext, filled: str, registry: RegistryServer) -> None:
    registry.open.clear()
    error = await failure(js, filled, jetarrow.SchemaRegistry(registry.url, timeout=0.3))
    assert "no answer within 0.3 s" in str(error)
    registry.open.set()
    assert await read(js, filled, jetarrow.SchemaRegistry(registry.url)) == TABLE.to_pylist()


async def test_an_endless_answer_is_cut(js: JetStreamContext, filled: str, registry: RegistryServer) -> None:
    registry.prepared["/schemas/ids/1"] = [Answer(200, b" " * (20 << 20))] * 100
    error = await failure(js, filled, jetarrow.SchemaRegistry(registry.url, timeout=1))
    assert "cannot be read" in str(error) or "no answer within" in str(error)


async def test_references_that_refer_to_themselves(js: JetStreamContext, stream: str, registry: RegistryServer) -> None:
    itself = [{"name": "Order", "subject": "orders", "version": 1}]
    registry.register("orders", {"schema": '{"type": "record", "name": "A", "fields": []}', "references": itself})
    await js.publish(f"{stream}.a", b"\0\0\0\0\x01\x02")
    table = await js.read(stream, format="avro", schema=SCHEMA, registry=registry.url).read_all()
    assert pa.table(table)["value"].to_pylist() == [None]
    assert registry.requests == {"GET /schemas/ids/1": 1, "GET /subjects/orders/versions/1": 1}


async def test_a_schema_that_is_refused_sends_nothing(
    js: JetStreamContext, stream: str, registry: RegistryServer
) -> None:
    refused = Answer(409, {"error_code": 409, "message": "Schema being registered is incompatible"})
    registry.prepared["/subjects/Order/versions"] = [refused]
    with pytest.raises(SchemaRegistryError, match="status 409: Schema being registered is incompatible"):
        await js.publish_table(TABLE, f"{stream}.a", format="avro", schema=SCHEMA, registry=registry.url)
    only_known = jetarrow.SchemaRegistry(registry.url, auto_register=False)
    with pytest.raises(SchemaRegistryError, match="Schema not found"):
        await js.publish_table(TABLE, f"{stream}.a", format="avro", schema=SCHEMA, registry=only_known)
    assert (await js.stream_info(stream)).state.messages == 0
    assert registry.schemas == []


CREDENTIALS = {
    "basic": ({"user": "me", "password": SECRET}, "Basic " + b64encode(f"me:{SECRET}".encode()).decode()),
    "bearer": ({"token": SECRET}, f"Bearer {SECRET}"),
}


@pytest.mark.parametrize("kind", CREDENTIALS)
async def test_credentials(js: JetStreamContext, filled: str, registry: RegistryServer, kind: str) -> None:
    options, registry.authorization = CREDENTIALS[kind]
    assert await read(js, filled, jetarrow.SchemaRegistry(registry.url, **options)) == TABLE.to_pylist()
    wrong = {name: value + "x" for name, value in options.items()}
    error = await failure(js, filled, jetarrow.SchemaRegistry(registry.url, **wrong))
    assert error.status == 401
    assert "the credentials are wrong or missing" in str(error)


async def test_credentials_in_the_url(js: JetStreamContext, filled: str, registry: RegistryServer) -> None:
    registry.authorization = "Basic " + b64encode(f"m@e:{SECRET}+/".encode()).decode()
    url = f"http://m%40e:{SECRET}+%2F@127.0.0.1:{registry.server_port}"
    place = jetarrow.SchemaRegistry(url)
    assert await read(js, filled, place) == TABLE.to_pylist()
    assert place.url == registry.url
    assert repr(place) == f"SchemaRegistry({registry.url!r})"
    error = await failure(js, filled, jetarrow.SchemaRegistry(url.replace("m%40e", "other")))
    assert error.url == registry.url


def test_a_registry_is_not_pickled() -> None:
    place = jetarrow.SchemaRegistry("http://127.0.0.1:1", token=SECRET)
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="credentials"):
            copied(place)


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("ftp://registry", {}),
        ("registry:8081", {}),
        ("", {}),
        ("http://", {}),
        ("http://registry", {"tls": jetarrow.TLS()}),
        ("http://registry", {"user": "a", "token": "b"}),
        ("http://registry", {"token": "a\nb"}),
        ("http://registry", {"timeout": -1}),
    ],
)
def test_invalid_options(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"registry|timeout"):
        jetarrow.SchemaRegistry(url, **options)


async def test_tls(js: JetStreamContext, filled: str, registry: RegistryServer, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    files = authority.issue("127.0.0.1")
    context.load_cert_chain(files.cert, files.key)
    context.load_verify_locations(authority.ca.cert)
    context.verify_mode = ssl.CERT_REQUIRED
    secure = RegistryServer()
    secure.schemas = registry.schemas
    secure.secure(context)
    client = authority.issue("client")
    with running(secure):
        tls = jetarrow.TLS(ca=authority.ca.cert, cert=client.cert, key=client.key)
        assert await read(js, filled, jetarrow.SchemaRegistry(secure.url, tls=tls)) == TABLE.to_pylist()
        error = await failure(js, filled, jetarrow.SchemaRegistry(secure.url, timeout=5))
        assert "not signed by a CA that is trusted here" in str(error)
        error = await failure(
            js, filled, jetarrow.SchemaRegistry(secure.url, tls=jetarrow.TLS(ca=authority.ca.cert), timeout=1)
        )
        assert error.url == secure.url


async def test_a_certificate_for_another_name(
    js: JetStreamContext, filled: str, registry: RegistryServer, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    files = authority.issue("registry.example")
    context.load_cert_chain(files.cert, files.key)
    secure = RegistryServer()
    secure.secure(context)
    with running(secure):
        tls = jetarrow.TLS(ca=authority.ca.cert)
        error = await failure(js, filled, jetarrow.SchemaRegistry(secure.url, tls=tls, timeout=5))
        assert "only for: registry.example" in str(error)
