"""Credentials of every kind with a real server; secrets do not appear in texts."""

from __future__ import annotations

import asyncio
import base64
import logging
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import errors
from jetarrow.aio.client import RawCredentials
from jetarrow.server import NatsServer

CANARY = "canary-s3cret"
USERS = f"authorization {{ user: me, password: {CANARY} }}"
TOKEN = f"authorization {{ token: {CANARY} }}"


@pytest.fixture(scope="module")
def by_user() -> Iterator[NatsServer]:
    with NatsServer(config=USERS, jetstream=False) as server:
        yield server


@pytest.fixture(scope="module")
def by_token() -> Iterator[NatsServer]:
    with NatsServer(config=TOKEN, jetstream=False) as server:
        yield server


async def connects(server: NatsServer, **options: Any) -> None:
    async with await jetarrow.connect(server.url, **options) as nc:
        await nc.flush()


@pytest.mark.parametrize("call", [False, True], ids=["string", "function"])
async def test_connect_with_user_and_password_is_authorized(by_user: NatsServer, call: bool) -> None:
    def give(text: str) -> Any:
        return (lambda: text) if call else text

    await connects(by_user, user=give("me"), password=give(CANARY))
    with jetarrow.sync.connect(by_user.url, user=give("me"), password=give(CANARY)) as nc:
        nc.flush()


@pytest.mark.parametrize("call", [False, True], ids=["string", "function"])
async def test_connect_with_token_is_authorized(by_token: NatsServer, call: bool) -> None:
    await connects(by_token, token=(lambda: CANARY) if call else CANARY)


async def test_connect_with_credentials_in_address_is_authorized(by_user: NatsServer, by_token: NatsServer) -> None:
    for server, info in ((by_user, f"me:{CANARY}"), (by_token, CANARY)):
        async with await jetarrow.connect(server.url.replace("//", f"//{info}@")) as nc:
            url = nc.connected_url
            assert url is not None
            assert url.netloc == server.url.removeprefix("nats://")
            assert CANARY not in repr((nc, nc.servers, nc.server_pool, nc.options, nc.connected_url, vars(nc)))


async def test_connect_uses_credentials_of_each_address(by_user: NatsServer, by_token: NatsServer) -> None:
    servers = [by_user.url.replace("//", "//me:wrong@"), by_token.url.replace("//", f"//{CANARY}@")]
    async with await jetarrow.connect(servers, dont_randomize=True) as nc:
        assert nc.connected_url is not None
        assert nc.connected_url.port == by_token.port


WRONG: list[dict[str, Any]] = [
    {},
    {"user": "me", "password": "wrong-" + CANARY},
    {"token": "wrong-" + CANARY},
    {"user": "me"},
    {"nkeys_seed_str": "SUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU"},
]


@pytest.mark.parametrize("options", WRONG, ids=lambda options: "-".join(options) or "none")
async def test_connect_with_wrong_credentials_raises_without_retry(
    by_user: NatsServer, options: dict[str, Any]
) -> None:
    begin = time.monotonic()
    with pytest.raises(errors.AuthorizationError, match=f"{by_user.port}") as info:
        await jetarrow.connect(by_user.url, connect_timeout=30, **options)
    assert time.monotonic() - begin < 10
    assert isinstance(info.value, errors.Error)


async def test_secrets_are_not_in_errors_and_attributes(
    by_user: NatsServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    texts = []
    for options in WRONG[1:]:
        nc = jetarrow.NATS()
        try:
            await nc.connect(by_user.url, **options)
        except errors.Error as error:
            texts += [str(error), repr(error), "".join(traceback.format_exception(error)), repr(nc), repr(nc.options)]
            texts += [repr(nc.last_error), repr(error.args), repr(vars(error))]
    assert len(texts) == 8 * len(WRONG[1:])
    shown = "\n".join(texts) + caplog.text + "".join(capfd.readouterr())
    assert CANARY not in shown
    assert "SUAMLK2Z" not in shown
    # The log is captured: it has the failed attempts.
    assert "AuthorizationError" in caplog.text


async def test_connect_raises_error_of_credential_function(by_token: NatsServer, record: Any) -> None:
    def broken() -> str:
        raise KeyError("no token today")

    with pytest.raises(KeyError, match="no token today"):
        await jetarrow.connect(by_token.url, token=broken, error_cb=record["error"])
    assert [type(error) for error in record.errors] == [KeyError]
    with pytest.raises(KeyError, match="no token today"):
        jetarrow.sync.connect(by_token.url, token=broken)
    with pytest.raises(TypeError, match="token must return str"):
        await jetarrow.connect(by_token.url, token=lambda: 7)  # type: ignore[arg-type, return-value]


async def test_credential_functions_are_called_at_each_reconnect(record: Any, tmp_path: Path) -> None:
    with NatsServer(config=TOKEN, jetstream=False) as server:
        asked: list[str] = []

        def token() -> str:
            asked.append("old" if not asked else "new")
            return CANARY

        async with await jetarrow.connect(server.url, token=token, **record.options()) as nc:
            assert asked == ["old"]
            await nc.force_reconnect()
            await record.wait_for("reconnected")
            assert asked == ["old", "new"]


async def test_connect_with_nkey_is_authorized(new_key: Any, tmp_path: Path) -> None:
    key = new_key()
    seed_file = tmp_path / "seed.nk"
    seed_file.write_text(key.seed + "\n")
    config = f"authorization {{ users = [ {{ nkey: {key.public} }} ] }}"
    with NatsServer(config=config, jetstream=False) as server:
        await connects(server, nkeys_seed_str=key.seed)
        await connects(server, nkeys_seed=str(seed_file))
        with jetarrow.sync.connect(server.url, nkeys_seed=str(seed_file)) as nc:
            nc.flush()
        with pytest.raises(errors.AuthorizationError):
            await jetarrow.connect(server.url, nkeys_seed_str=new_key().seed)


async def test_connect_with_invalid_keys_raises(by_user: NatsServer, tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    for options in (
        {"nkeys_seed": str(absent)},
        {"user_credentials": str(absent)},
        {"user_credentials": (absent, absent)},
    ):
        with pytest.raises(FileNotFoundError, match="absent"):
            await jetarrow.connect(by_user.url, **options)
    junk = tmp_path / "junk.creds"
    junk.write_text(f"-----BEGIN NATS USER JWT-----\n{CANARY}\n")
    for options in (
        {"user_credentials": str(junk)},
        {"user_credentials": RawCredentials(CANARY)},
        {"nkeys_seed": str(junk)},
        {"nkeys_seed_str": CANARY},
    ):
        with pytest.raises(errors.InvalidUserCredentialsError) as info:
            await jetarrow.connect(by_user.url, **options)
        assert CANARY not in f"{info.value!r} {info.value}"


async def test_connect_accepts_credentials_in_every_form(operator: Any, new_key: Any, tmp_path: Path) -> None:
    key = new_key()
    creds, jwt, seed = tmp_path / "user.creds", tmp_path / "user.jwt", tmp_path / "user.nk"
    creds.write_text(operator.creds(key))
    jwt.write_text(operator.user(key))
    seed.write_text(key.seed)
    with NatsServer(config=operator.config, jetstream=False) as server:
        for given in (str(creds), creds, (str(jwt), str(seed)), RawCredentials(creds.read_text())):
            await connects(server, user_credentials=given)
            with jetarrow.sync.connect(server.url, user_credentials=given) as nc:
                nc.flush()
        with pytest.raises(errors.AuthorizationError):
            await jetarrow.connect(server.url)
        with pytest.raises(errors.AuthorizationError):
            await jetarrow.connect(server.url, user_credentials=RawCredentials(operator.creds(key, exp=1)))


async def test_connect_with_jwt_and_signature_functions_is_authorized(operator: Any, new_key: Any) -> None:
    key = new_key()
    asked: list[str] = []

    def jwt() -> bytes:
        asked.append("jwt")
        return bytearray(operator.user(key).encode())

    def sign(nonce: str) -> bytes:
        asked.append("nonce" if nonce else "nothing")
        return base64.b64encode(key.sign(nonce.encode()))

    with NatsServer(config=operator.config, jetstream=False) as server:
        await connects(server, user_jwt_cb=jwt, signature_cb=sign)
        with jetarrow.sync.connect(server.url, user_jwt_cb=jwt, signature_cb=sign) as nc:
            nc.flush()
        assert asked == ["nonce", "jwt"] * 2
        with pytest.raises(errors.InvalidUserCredentialsError, match="base64"):
            await jetarrow.connect(server.url, user_jwt_cb=jwt, signature_cb=lambda nonce: b"not base64!")


async def test_credentials_file_is_read_again_after_expiry(
    operator: Any, new_key: Any, tmp_path: Path, record: Any
) -> None:
    """The server closes the connection when its JWT expires; the renewed file makes the reconnect succeed."""
    key, file = new_key(), tmp_path / "user.creds"
    with NatsServer(config=operator.config, jetstream=False) as server:
        # JWTs expire at whole seconds.
        file.write_text(operator.creds(key, exp=int(time.time()) + 5))
        async with await jetarrow.connect(
            server.url, user_credentials=str(file), reconnect_time_wait=0.1, **record.options()
        ) as nc:
            file.write_text(operator.creds(key))
            await record.wait_for("reconnected", timeout=30)
            await nc.flush()
        assert record.turns == ["disconnected", "reconnected", "disconnected", "closed"]
        assert any(isinstance(error, errors.AuthorizationError) and "expired" in str(error) for error in record.errors)


PERMISSIONS = """
authorization { users = [ {
  user: me, password: x
  permissions: { publish: ["allowed.>"], subscribe: ["allowed.>", "_INBOX.>"] }
} ] }
"""


async def test_permissions_violation_calls_error_callback(record: Any) -> None:
    with NatsServer(config=PERMISSIONS, jetstream=False) as server:
        async with await jetarrow.connect(server.url, user="me", password="x", **record.options()) as nc:
            await nc.publish("Secret.Subject", b"x")
            await nc.flush()
            await record.until(lambda: record.errors)
            error = record.errors[0]
            assert str(error) == 'nats: permissions violation for publish to "Secret.Subject"'
            assert isinstance(error, errors.PermissionsViolationError)
            assert (error.operation, error.subject) == ("publish", "Secret.Subject")
            assert nc.last_error is error
            await nc.subscribe("Other.*")
            await record.until(lambda: len(record.errors) == 2)
            assert (record.errors[1].operation, record.errors[1].subject) == ("subscription", "Other.*")
            assert record.turns == []
            await nc.publish("allowed.x", b"x")
            await nc.flush()
            assert nc.is_connected


async def test_error_callback_receives_every_error_of_a_burst(record: Any) -> None:
    """Many errors in one read, each with its subject."""
    with NatsServer(config=PERMISSIONS, jetstream=False) as server:
        async with await jetarrow.connect(server.url, user="me", password="x", error_cb=record["error"]) as nc:
            for number in range(2_000):
                await nc.publish(f"denied.{number}", b"x")
            await nc.flush()
            await record.until(lambda: len(record.errors) >= 2_000)
            assert [error.subject for error in record.errors] == [f"denied.{number}" for number in range(2_000)]


async def test_flush_without_inbox_permission_succeeds(record: Any) -> None:
    config = (
        """authorization { users = [ { user: me, password: x, permissions: { publish: "a", subscribe: "a" } } ] }"""
    )
    with NatsServer(config=config, jetstream=False) as server:
        async with await jetarrow.connect(server.url, user="me", password="x", **record.options()) as nc:
            assert await nc.rtt() < 5
            await nc.flush()
            await asyncio.sleep(0)
            assert record.seen == []
