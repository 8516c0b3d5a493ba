"""Passwords, tokens, seeds and JWTs are in no repr, no text of an error, no log line and no traceback."""

from __future__ import annotations

import asyncio
import logging
import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.server import NatsServer

# The key pair of the NATS documentation, and a JWT of the right form; the server knows neither.
SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
PUBLIC = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
JWT = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJzdWIiOiJzZWNyZXRzdWJqZWN0In0.c2VjcmV0c2lnbmF0dXJl"
PASSWORD, TOKEN, OTHER = "p4ss-w0rd-hidden", "t0ken-hidden", "0ther-hidden"
SECRETS = (SEED, JWT, PASSWORD, TOKEN, OTHER)

CREDS = f"""-----BEGIN NATS USER JWT-----
{JWT}
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
{SEED}
------END USER NKEY SEED------
"""

CONFIGS = {
    "password": f'authorization {{ user: "anna", password: "{PASSWORD}", timeout: 5 }}',
    "token": f'authorization {{ token: "{TOKEN}", timeout: 5 }}',
    "right nkey": f"authorization {{ users: [ {{ nkey: {PUBLIC} }} ] }}",
    # Another key than that of the seed: the server sends a nonce, and refuses the signature.
    "nkey": "authorization { users: [ { nkey: UBRYFM6MRAKBFN337SXO2ATAAHAA3HRQEXTGYIHW47US6B4YKFDCURCQ } ] }",
}


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, NatsServer]]:
    running = {name: NatsServer(config=config + "\n", jetstream=False).start() for name, config in CONFIGS.items()}
    yield running
    for server in running.values():
        server.close()


@pytest.fixture
def creds(tmp_path: Path) -> str:
    path = tmp_path / "user.creds"
    path.write_text(CREDS, "utf-8")
    return str(path)


def ways(servers: dict[str, NatsServer], creds: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Address and options of connections that are all refused."""
    where = {name: server.url.removeprefix("nats://") for name, server in servers.items()}
    raw = jetarrow.aio.client.RawCredentials(CREDS)
    return {
        "password": (servers["password"].url, {"user": "anna", "password": OTHER}),
        "password from a function": (servers["password"].url, {"user": lambda: "anna", "password": lambda: OTHER}),
        "password in the address": (f"nats://anna:{OTHER}@{where['password']}", {}),
        "token": (servers["token"].url, {"token": OTHER}),
        "token from a function": (servers["token"].url, {"token": lambda: OTHER}),
        "token in the address": (f"nats://{OTHER}@{where['token']}", {}),
        "seed": (servers["nkey"].url, {"nkeys_seed_str": SEED}),
        "credentials file": (servers["nkey"].url, {"user_credentials": creds}),
        "credentials as text": (servers["nkey"].url, {"user_credentials": raw}),
    }


WAYS = [
    "password",
    "password from a function",
    "password in the address",
    "token",
    "token from a function",
    "token in the address",
    "seed",
    "credentials file",
    "credentials as text",
]


def everything_about(error: BaseException | None) -> str:
    """All the text that an error may leave anywhere."""
    assert error is not None
    chain = "".join(traceback.format_exception(error))
    return "\n".join((repr(error), str(error), repr(error.args), repr(vars(error)), chain, repr(pickle.dumps(error))))


def assert_clean(text: str) -> None:
    found = [secret for secret in SECRETS if secret[: len(secret) // 2] in text]
    assert not found, f"{len(found)} secrets in: {text}"


@pytest.mark.parametrize("way", WAYS)
async def test_refused_connect_shows_no_secret(
    way: str, servers: dict[str, NatsServer], creds: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url, options = ways(servers, creds)[way]
    told: list[Exception] = []

    async def error_cb(error: Exception) -> None:
        told.append(error)

    nc = jetarrow.NATS()
    with pytest.raises(jetarrow.errors.Error) as caught:
        await asyncio.wait_for(nc.connect(url, error_cb=error_cb, allow_reconnect=False, **options), 20)
    assert isinstance(caught.value, jetarrow.errors.AuthorizationError)
    texts = [everything_about(caught.value), repr(nc), repr(nc.servers), repr(nc.server_pool), repr(nc.last_error)]
    texts += [everything_about(error) for error in told]
    with pytest.raises(jetarrow.errors.Error) as closed:
        await nc.publish("a", b"")
    texts += [everything_about(closed.value), caplog.text, *capfd.readouterr()]
    assert_clean("\n".join(texts))


@pytest.mark.parametrize("way", WAYS)
def test_refused_sync_connect_shows_no_secret(
    way: str, servers: dict[str, NatsServer], creds: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url, options = ways(servers, creds)[way]
    client = jetarrow.sync.Client()
    with pytest.raises(jetarrow.errors.AuthorizationError) as caught:
        client.connect(url, **options)
    assert_clean("\n".join((everything_about(caught.value), repr(client), caplog.text)))


async def test_accepted_connection_shows_no_secret(
    servers: dict[str, NatsServer], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    where = {name: server.url.removeprefix("nats://") for name, server in servers.items()}
    ways = [
        (servers["password"].url, {"user": "anna", "password": PASSWORD}),
        (f"nats://anna:{PASSWORD}@{where['password']}", {}),
        (servers["token"].url, {"token": TOKEN}),
        (f"nats://{TOKEN}@{where['token']}", {}),
        (servers["right nkey"].url, {"nkeys_seed_str": SEED}),
    ]
    for url, options in ways:
        async with await jetarrow.connect(url, **options) as nc:
            js = nc.jetstream()
            sub = await nc.subscribe("a")
            things = [nc, js, sub, nc.connected_url, nc.servers, nc.server_pool, nc.discovered_servers, nc.stats]
            await nc.publish("a", b"")
            things.append(await sub.next_msg(timeout=10))
            with pytest.raises(jetarrow.errors.Error) as caught:
                await js.account_info()
            assert_clean("\n".join([*map(repr, things), everything_about(caught.value)]))
    assert_clean(caplog.text)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        (f"nats://anna:{OTHER}@127.0.0.1:1", jetarrow.errors.NoServersError),
        (f"nats://{OTHER}@127.0.0.1:1", jetarrow.errors.NoServersError),
        (f"nats://anna:{OTHER}@127.0.0.1:port", jetarrow.errors.BadAddressError),
        (f"nats://anna:{OTHER}@", jetarrow.errors.BadAddressError),
        (f"http://anna:{OTHER}@127.0.0.1:4222", jetarrow.errors.BadAddressError),
        (f"nats://anna:{OTHER}@no-such-host.invalid:4222", jetarrow.errors.NoServersError),
        (f"nats://anna:{OTHER}@[::1", jetarrow.errors.BadAddressError),
        (f"anna:{OTHER}@127.0.0.1:1", jetarrow.errors.NoServersError),
        (f"nats://anna:{OTHER}@127.0.0.1\r\n:1", jetarrow.errors.BadAddressError),
        (f"nats://an\nna:{OTHER}@127.0.0.1:1", jetarrow.errors.BadAddressError),
        (f"nats://anna:{OTHER}@ho\u2028st:1", jetarrow.errors.BadAddressError),
    ],
)
async def test_unreachable_or_invalid_address_shows_no_secret(
    url: str, kind: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    quick = {"connect_timeout": 1, "max_reconnect_attempts": 1, "reconnect_time_wait": 0.01}
    with pytest.raises(kind) as caught:
        await asyncio.wait_for(jetarrow.connect(url, **quick), 10)
    assert_clean(everything_about(caught.value) + caplog.text)
    assert str(caught.value).isprintable()


BAD_CREDENTIALS = {
    "empty": "",
    "words": "nothing of the kind",
    "a seed cut off": CREDS.replace(SEED, SEED[:-8]),
    "no seed": CREDS[:120],
    "a seed alone": SEED,
}


@pytest.mark.parametrize("text", BAD_CREDENTIALS.values(), ids=BAD_CREDENTIALS)
async def test_credentials_that_cannot_be_read(text: str, tmp_path: Path, servers: dict[str, NatsServer]) -> None:
    path = tmp_path / "bad.creds"
    path.write_text(text, "utf-8")
    raw = jetarrow.aio.client.RawCredentials(text)
    for given in (str(path), path, raw):
        with pytest.raises(jetarrow.errors.InvalidUserCredentialsError) as caught:
            await jetarrow.connect(servers["nkey"].url, user_credentials=given, allow_reconnect=False)
        assert_clean(everything_about(caught.value))


PEM = "-----BEGIN PRIVATE KEY-----"
IN_THE_PLACE_OF_A_PATH: dict[str, dict[str, Any]] = {
    "a seed": {"nkeys_seed": SEED},
    "a seed and a line break": {"nkeys_seed": SEED + "\n"},
    "a part of a seed": {"nkeys_seed": SEED[:40]},
    "a seed with a NUL": {"nkeys_seed": f"{SEED}\0"},
    "a seed as credentials": {"user_credentials": SEED},
    "the text of a file": {"user_credentials": CREDS},
    "a JWT and a seed": {"user_credentials": (JWT, SEED)},
    "a path and a seed": {"user_credentials": (__file__, SEED)},
    "a seed as CA": {"tls": jetarrow.TLS(ca=SEED)},
    "a seed as key": {"tls": jetarrow.TLS(cert=SEED, key=PEM)},
    "a seed as key, in bytes": {"tls": jetarrow.TLS(cert=PEM, key=SEED.encode())},
}


@pytest.mark.parametrize("given", IN_THE_PLACE_OF_A_PATH.values(), ids=IN_THE_PLACE_OF_A_PATH)
async def test_a_secret_in_the_place_of_a_path(given: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(FileNotFoundError, match="takes the path of a file") as caught:
        await jetarrow.connect("nats://127.0.0.1:1", **given)
    assert_clean(everything_about(caught.value) + caplog.text)


@pytest.mark.parametrize("option", ["nkeys_seed", "user_credentials"])
async def test_a_path_is_shown(option: str, tmp_path: Path) -> None:
    missing = tmp_path / "anna.creds"
    with pytest.raises(FileNotFoundError, match=r"anna\.creds"):
        await jetarrow.connect("nats://127.0.0.1:1", **{option: missing})


def fail() -> str:
    vault = OTHER  # No part of a traceback shows a function's variables.
    raise RuntimeError(f"the vault is closed, after {len(vault)} characters")


CALLBACKS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "token raises": ({"token": fail}, RuntimeError, "the vault is closed"),
    "password raises": ({"user": "anna", "password": fail}, RuntimeError, "the vault is closed"),
    "token is a list": ({"token": lambda: [OTHER]}, TypeError, "token must return"),
    "password is a list": ({"user": "anna", "password": lambda: [OTHER]}, TypeError, "password must return"),
    "token is no text": ({"token": lambda: f"{OTHER}\ud800"}, jetarrow.errors.Error, "token"),
    "token is no function": ({"token": {OTHER}}, TypeError, "token must be"),
}


@pytest.mark.parametrize("name", CALLBACKS)
async def test_callbacks_that_fail(
    name: str, servers: dict[str, NatsServer], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    options, kind, says = CALLBACKS[name]
    with pytest.raises(kind, match=says) as caught:
        await jetarrow.connect(servers["token"].url, allow_reconnect=False, **options)
    assert_clean("\n".join([everything_about(caught.value), caplog.text, *capfd.readouterr()]))


def hidden_in(place: str, secret: str) -> Exception:
    """An error that has a secret in one place alone."""
    error = KeyError("x")
    if place == "text":
        error = KeyError(secret)
    elif place == "attribute":
        error.seed = secret  # type: ignore[attr-defined]
    elif place == "note":
        error.add_note(secret)
    elif place == "cause":
        error.__cause__ = ValueError(secret)
    else:
        error.__context__ = ValueError(secret)
    return error


@pytest.mark.parametrize("place", ["text", "attribute", "note", "cause", "context"])
@pytest.mark.parametrize("secret", SECRETS)
def test_assert_clean_detects_secret_in_each_place(place: str, secret: str) -> None:
    # Guard: a secret in any of these places is found.
    with pytest.raises(AssertionError, match="1 secrets in"):
        assert_clean(everything_about(hidden_in(place, secret)))
    assert_clean(everything_about(KeyError("x")))


def test_our_errors_hide_what_looks_like_a_secret() -> None:
    error = jetarrow.errors.Error(f"nats://anna:{OTHER}@host refused {SEED} and {JWT}")
    assert str(error) == "nats: nats://***@host refused *** and ***"
    assert_clean(everything_about(error))
