"""Secrets are resolved when they are needed, and never shown."""

from __future__ import annotations

import pickle
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jetarrow.aio.client import RawCredentials
from jetarrow.errors import AuthorizationError
from jetarrow.server import NatsServer
from jetarrow.spark.connection import connect
from jetarrow.spark.options import secrets
from jetarrow.spark.options.connection import CONNECT_OPTIONS, ConnectOptions, connect_options
from jetarrow.spark.options.option_texts import OptionTexts
from jetarrow.spark.options.secrets import Secret, warn_of_literals
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ..connect.conftest import NKey, Operator
from .tools import wait_until

if TYPE_CHECKING:
    from .tools import Streams

SERVERS = {"servers": "a:1"}
# From the NATS documentation.
SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
PUBLIC = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"


def options(**given: str) -> ConnectOptions:
    return connect_options(OptionTexts({**SERVERS, **given}, CONNECT_OPTIONS))


def test_references(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NATS_PW", "from the environment")
    monkeypatch.setenv("JETARROW_SECRET_DIRS", str(tmp_path))
    (tmp_path / "pw").write_text("from a file\r\n\n")
    assert Secret("password", "env:NATS_PW").resolve() == "from the environment"
    # One newline is what editors and echo leave; another one may be meant.
    assert Secret("password", f"file:{tmp_path}/pw").resolve() == "from a file\r\n"
    for literal in ("hunter2", " a b ", "env:", "vault:x", "file"):
        secret = Secret("password", literal)
        assert (secret.is_reference, secret.resolve()) == (False, literal)


def test_references_that_lead_nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NATS_EMPTY", "")
    monkeypatch.setenv("JETARROW_SECRET_DIRS", str(tmp_path.parent))
    (tmp_path / "binary").write_bytes(b"hunter2\xff")
    for given, said in (
        ("env:NATS_NO_SUCH", "environment variable 'NATS_NO_SUCH' is not set on this worker"),
        ("env:NATS_EMPTY", "the secret at 'env:NATS_EMPTY' is empty"),
        (f"file:{tmp_path}/none", "cannot be read here: No such file or directory"),
        (f"file:{tmp_path}", "cannot be read here: Is a directory"),
        (f"file:{tmp_path}/binary", "cannot be read here: it is not UTF-8 text"),
    ):
        with pytest.raises(ValueError, match=r"^jetstream option 'authToken': ") as caught:
            Secret("authToken", given).resolve()
        assert said in str(caught.value)
        assert "hunter2" not in str(caught.value)


def test_references_resolve_only_if_the_operator_allows_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Any user can set `servers`, so only values that the operator allows are sent to them."""
    inside, outside = tmp_path / "in" / "pw", tmp_path / "out"
    inside.parent.mkdir()
    inside.write_text("hunter2")
    outside.write_text("hunter2")
    (tmp_path / "in" / "link").symlink_to(outside)
    (tmp_path / "inside").write_text("hunter2")
    monkeypatch.delenv("JETARROW_SECRET_DIRS", raising=False)
    monkeypatch.setenv("OTHER_PW", "hunter2")
    monkeypatch.setenv("JETARROW_PW", "hunter2")

    def refused(given: str, said: str, option: str = "authToken") -> None:
        with pytest.raises(ValueError, match=f"^jetstream option '{option}': ") as caught:
            options(**{option: given}).arguments()
        assert said in str(caught.value)
        assert "hunter2" not in str(caught.value)

    for option in ("authToken", "user"):
        assert Secret(option, "env:JETARROW_PW").resolve() == "hunter2"
        refused("env:HOME", "env:HOME is not allowed here: JETARROW_SECRET_ENV allows NATS_", option)
        refused(
            "file:/etc/os-release",
            "JETARROW_SECRET_DIRS is not set; the operator can set JETARROW_SECRET_DIRS to",
            option,
        )
    for name in ("../passwd", "/etc/passwd", "a/../../b", "..", "..\\b"):
        refused(f"sparkfile:{name}", f"'sparkfile:{name}' is not the name of a file given to addFile")
    assert options(credsFile="/etc/a.creds").arguments()["user_credentials"] == "/etc/a.creds"

    monkeypatch.setenv("JETARROW_SECRET_ENV", "OTHER_*, X")
    monkeypatch.setenv("JETARROW_SECRET_DIRS", f"/nowhere:{tmp_path}/in")
    assert Secret("authToken", "env:OTHER_PW").resolve() == Secret("user", f"file:{inside}").resolve() == "hunter2"
    refused("env:JETARROW_PW", "JETARROW_SECRET_ENV allows OTHER_*, X")
    for path in (outside, tmp_path / "in" / ".." / "out", tmp_path / "in" / "link", tmp_path / "inside"):
        refused(f"file:{path}", "JETARROW_SECRET_DIRS allows /nowhere:")
    # Plain paths of keys too, once there are directories for them.
    refused("/etc/a.creds", "JETARROW_SECRET_DIRS allows /nowhere:", "credsFile")
    refused("/etc/a.nk", "JETARROW_SECRET_DIRS allows /nowhere:", "nkeyFile")
    assert options(tlsCaFile="/etc/ca.pem").arguments()["tls"].ca == "/etc/ca.pem"
    monkeypatch.setenv("JETARROW_SECRET_ENV", "")
    refused("env:OTHER_PW", "JETARROW_SECRET_ENV allows none")


@pytest.mark.parametrize(
    ("option", "first", "second"),
    [
        ("authToken", ("one", "token: one"), ("two", "token: two")),
        ("user", ("joe", "user: joe, password: x"), ("ann", "user: ann, password: x")),
    ],
)
def test_replaced_secret_is_used_at_the_next_connect(
    option: str,
    first: tuple[str, str],
    second: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("JETARROW_SECRET_DIRS", str(tmp_path))
    secret, config = tmp_path / "secret", tmp_path / "server.conf"

    def both(text: str, users: str) -> None:
        secret.write_text(text + "\n")
        config.write_text(f"authorization {{ {users} }}\n")

    both(*first)
    given = {option: f"file:{secret}"} | ({"password": "x"} if option == "user" else {})
    with NatsServer(config=config, jetstream=False) as server, connect(options(servers=server.url, **given)) as client:
        client.flush()
        server.stop()
        both(*second)
        server.start()
        wait_until(lambda: client.is_connected)
        client.flush()


def test_an_expired_jwt_can_be_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JETARROW_SECRET_DIRS", str(tmp_path))
    operator, key, file = Operator(), NKey("U"), tmp_path / "user.creds"
    with NatsServer(config=operator.config, jetstream=False) as server:
        file.write_text(operator.creds(key, exp=int(time.time()) + 6))
        given = options(servers=server.url, credsSecret=f"file:{file}")
        with connect(given) as client:
            file.write_text(operator.creds(key))
            wait_until(lambda: client.stats["reconnects"] > 0 and client.is_connected)
            client.flush()


def test_pickle_and_repr_contain_references_but_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference is resolved for the connection, and never kept."""
    found = options(user="joe", password="env:NATS_PW")
    monkeypatch.setenv("NATS_PW", "hunter2")
    arguments = found.arguments()
    assert (arguments["user"], arguments["password"]()) == ("joe", "hunter2")
    assert "hunter2" not in repr(arguments)
    for kept in (repr(found), str(found), repr(pickle.dumps(found))):
        assert "hunter2" not in kept
    assert b"env:NATS_PW" in pickle.dumps(found)
    assert "hunter2" not in repr(options(authToken="hunter2"))
    assert pickle.loads(pickle.dumps(found)) == found


def test_everything_given(monkeypatch: pytest.MonkeyPatch) -> None:
    # Another test of this process may have begun a session.
    monkeypatch.delenv("JETARROW_SECRET_DIRS", raising=False)
    found = options(
        user="joe",
        password=" with space ",
        jsDomain="hub",
        inboxPrefix="_MY",
        connectTimeoutMs="500",
        servers="a:1,tls://b:2",
    )
    arguments = found.arguments()
    assert arguments["servers"] == ["nats://a:1", "tls://b:2"]
    assert (arguments["password"], arguments["inbox_prefix"]) == (" with space ", "_MY")
    assert arguments["connect_timeout"] == 0.5
    assert found.jetstream_arguments() == {"domain": "hub"}
    assert options(apiPrefix="$JS.hub.API").jetstream_arguments() == {"prefix": "$JS.hub.API"}
    assert options(authToken="x").arguments()["token"] == "x"
    assert options(credsFile="/etc/a.creds").arguments()["user_credentials"] == "/etc/a.creds"
    assert options(nkeyFile="/etc/a.nk").arguments()["nkeys_seed"] == "/etc/a.nk"
    assert options(nkeySecret="SU...").arguments()["nkeys_seed_str"] == "SU..."
    raw = options(credsSecret="-----BEGIN NATS USER JWT-----").arguments()["user_credentials"]
    assert isinstance(raw, RawCredentials)
    assert "BEGIN" not in repr(raw)
    tls = options(tlsCaFile="/ca.pem", tlsCertFile="/c.pem", tlsKeyFile="/k.pem").arguments()["tls"]
    assert (tls.ca, tls.cert, tls.key) == ("/ca.pem", "/c.pem", "/k.pem")
    assert (tls.hostname, tls.handshake_first) == (None, False)
    tls = options(tlsHostname="nats.example", tlsHandshakeFirst="true").arguments()["tls"]
    assert (tls.ca, tls.hostname, tls.handshake_first) == (None, "nats.example", True)
    assert "tls" not in arguments
    assert (arguments["name"], options(connectionName="orders app").arguments()["name"]) == (
        "jetarrow-spark",
        "orders app",
    )
    assert options().jetstream_arguments() == {}


def test_keys_of_every_kind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A key from a reference, as a path that the client reads, or as a literal."""
    monkeypatch.setenv("NATS_SEED", SEED)
    monkeypatch.setenv("JETARROW_SECRET_DIRS", str(tmp_path))
    file = tmp_path / "seed"
    file.write_text(SEED + "\n")
    with NatsServer(config=f"authorization {{ users: [{{nkey: {PUBLIC}}}] }}\n") as server:
        ways = [
            {"nkeySecret": "env:NATS_SEED"},
            {"nkeyFile": f"file:{file}"},
            {"nkeyFile": str(file)},
            {"nkeySecret": SEED},
        ]
        for way in ways:
            with connect(options(servers=server.url, **way)) as client:
                assert client.jetstream().account_info().streams == 0
        with pytest.raises(AuthorizationError) as caught:
            connect(options(servers=server.url, authToken=SEED))
        assert SEED not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "option", "said"),
    [
        ({"password": "x"}, "password", "there is no user"),
        ({"user": "a", "password": "x", "authToken": "y"}, "authToken", "does not go with 'user'"),
        ({"credsFile": "x", "credsSecret": "y"}, "credsSecret", "does not go with 'credsFile'"),
        ({"nkeyFile": "x", "credsSecret": "y"}, "nkeyFile", "does not go with 'credsSecret'"),
        ({"tlsCertFile": "x"}, "tlsKeyFile", "is missing"),
        ({"tlsKeyFile": "x"}, "tlsCertFile", "is missing"),
        ({"jsDomain": "x", "apiPrefix": "y"}, "apiPrefix", "does not go with 'jsDomain'"),
        ({"connectTimeoutMs": "2s"}, "connectTimeoutMs", "'2s' is not a count"),
    ],
)
def test_conflicting_or_incomplete_options_are_rejected(given: dict[str, str], option: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^jetstream option '{option}': {said}"):
        options(**given)


def test_a_literal_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_warned", set())
    given = (Secret("password", "hunter2"), Secret("authToken", "env:X"))
    with pytest.warns(
        UserWarning, match="option 'password' has a secret as a literal, and Spark Connect shows options"
    ) as caught:
        warn_of_literals(given)
    assert len(caught) == 1
    assert "hunter2" not in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_literals(given)
        options(authToken="env:X", tlsCaFile="/ca.pem").warn()


@pytest.fixture
def guarded(password: str) -> Iterator[NatsServer]:
    """A server that wants a password."""
    users = f"authorization {{ users: [{{user: joe, password: '{password}'}}] }}\n"
    with NatsServer(config=users) as server:
        yield server


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_secrets_are_not_in_plans_logs_or_errors(
    spark: SparkSession,
    guarded: NatsServer,
    streams: Streams,
    password: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """No plan, event log, error or output shows a secret, given by reference or as a literal."""
    streams.url = guarded.url.replace("//", f"//joe:{password}@")
    name = streams.new()
    for file in ("pw", "jetarrow-test-password"):
        (tmp_path / file).write_text(password + "\n")
    spark.sparkContext.addFile(str(tmp_path / "jetarrow-test-password"))
    common = {"servers": guarded.url, "stream": name, "user": "joe"}
    shown: list[str] = []
    spark.conf.set("spark.sql.ui.explainMode", "extended")
    ways = ["env:JETARROW_TEST_PASSWORD", f"file:{tmp_path}/pw", "sparkfile:jetarrow-test-password", password]
    for count, way in enumerate(ways, 1):
        given = {**common, "password": way}
        frame = spark.range(0, 1, 1, 1).selectExpr(f"'{name}.x' as subject", "cast(id as string) as data")
        frame.write.format("jetstream").options(**given).mode("append").save()
        assert streams.messages(name) == count
        if way in ways[2:]:
            back = spark.read.format("jetstream").options(**given).load()
            assert back.count() == count
            shown.append(explained(back))
    for wrong in ({"password": "env:JETARROW_NO_SUCH"}, {"password": "not-" + password}, {"authToken": password}):
        given = {key: value for key, value in common.items() if key != "user" or "password" in wrong}
        with pytest.raises(PySparkException) as error:
            spark.read.format("jetstream").options(**given, **wrong).load().count()
        shown.append(str(error.value))
    assert "environment variable 'JETARROW_NO_SUCH' is not set" in shown[-3]
    assert all("AuthorizationError" in text for text in shown[-2:])
    log = event_log(spark)
    assert f"{name}.x" in log, "or it does not show the writes"
    for text in [*shown, log, *capfd.readouterr()]:
        assert password not in text


def explained(frame: DataFrame) -> str:
    # The text that explain(mode) prints.
    modes = ("simple", "extended", "codegen", "cost", "formatted")
    plan: Callable[..., str] = frame._sc._jvm.PythonSQLUtils.explainString  # type: ignore[union-attr]
    return "\n".join(plan(frame._jdf.queryExecution(), mode) for mode in modes)


def event_log(spark: SparkSession) -> str:
    """The log that the user interface and the history server show."""
    folder = Path(spark.conf.get("spark.eventLog.dir", "").removeprefix("file:"))
    return "\n".join(file.read_text("utf-8") for file in folder.glob("eventlog_v2_*/events_*"))
