"""The command prints no password or token of an address, and connections use the real values."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jetarrow.cli import masking
from jetarrow.core.redaction import redact, redact_url
from jetarrow.server import NatsServer

from tests.cli.tools import Command
from tests.strategies import bounded
from tests.test_redaction import HIDDEN, SECRETS


@pytest.fixture
def contexts(away: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the folder of the context files; the environment names no server."""
    monkeypatch.delenv("NATS_URL")
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "nats" / "context"
    folder.mkdir(parents=True)
    return folder


# A URL with the secret in place of `%s`.
FORMS = {
    "password": "nats://anna:%s@127.0.0.1:1",
    "token": "nats://%s@127.0.0.1:1",
    "tls": "tls://anna:%s@127.0.0.1:1/",
    "websocket": "wss://anna:%s@127.0.0.1:1/nats?x=1",
    "no scheme": "anna:%s@127.0.0.1:1",
    "first of several": "nats://anna:%s@127.0.0.1:1,nats://127.0.0.1:2",
    "last of several": "nats://127.0.0.1:2, tls://anna:%s@127.0.0.1:1",
    "all of several": "nats://anna:%s@127.0.0.1:1,nats://%s@127.0.0.1:2,ws://b:%s@127.0.0.1:3",
    "several without a scheme": "nats://anna:%s@127.0.0.1:1,bert:%s@127.0.0.1:2",
    "parameter": "wss://127.0.0.1:1/?proxy=http://anna:%s@127.0.0.1:2",
}


def filled(form: str, secret: str) -> str:
    return FORMS[form].replace("%s", secret)


def test_contexts_show_no_secret(cli: Command, contexts: Path) -> None:
    @bounded(60)
    @given(SECRETS, st.sampled_from(sorted(FORMS)), st.sampled_from([0, 1, 2]))
    @example(f"a/{HIDDEN}", "password", 0)
    @example(f"{HIDDEN},b", "password", 0)
    @example(f"{HIDDEN} b@", "all of several", 0)
    @example(f"{HIDDEN}@b", "parameter", 2)
    def is_not_shown(secret: str, form: str, times_quoted: int) -> None:
        for _ in range(times_quoted):
            secret = quote(secret, safe="")
        url = filled(form, secret)
        said = {"url": url, "socks_proxy": f"socks5://u:{secret}@p:1"}
        if "://" in url and " " not in secret:
            said["description"] = f"see {quote(url, safe='')}"
        (contexts / "p.json").write_text(json.dumps(said), "utf-8")
        for typed in (["ls"], ["show", "p"], ["select", "p"]):
            for as_json in ([], ["--json"]):
                ran = cli("context", *typed, *as_json)
                assert ran.code == 0, ran.err
                assert HIDDEN not in ran.out + ran.err
        for fields in (said, {"url": url}):
            (contexts / "p.json").write_text(json.dumps(fields), "utf-8")
            failed = cli("stream", "ls", "--context", "p", "--timeout", "100ms")
            assert failed.code == 1
            assert HIDDEN not in failed.out + failed.err

    is_not_shown()


def test_errors_show_no_secret_that_was_typed_or_set(
    cli: Command, contexts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [
        ["{}"],
        ["stream", "{}"],
        ["stream", "ls", "{}"],
        ["stream", "ls", "--server", "{}"],
        ["stream", "ls", "--server={}"],
        ["stream", "ls", "--context", "{}"],
        ["stream", "ls", "--timeout", "{}"],
        ["--nonsense={}"],
        ["context", "show", "{}"],
        ["read", "S", "--to", "{}"],
        ["read", "S", "--limit", "{}"],
        ["load", "{}"],
    ]

    @bounded(120)
    @given(SECRETS.filter(lambda secret: "\0" not in secret), st.sampled_from(sorted(FORMS)), st.sampled_from(places))
    @example(f"{HIDDEN} b", "password", ["{}"])
    @example(f"a'\\{HIDDEN}", "token", ["{}"])
    def is_not_shown(secret: str, form: str, place: list[str]) -> None:
        url = filled(form, secret)
        failed = cli(*(word.replace("{}", url) for word in place))
        assert failed.code in (1, 2)
        assert HIDDEN not in failed.out + failed.err, failed
        with monkeypatch.context() as set_here:
            set_here.setenv("NATS_URL", url)
            failed = cli("stream", "ls", "--timeout", "100ms")
            assert failed.code == 1
            assert HIDDEN not in failed.out + failed.err

    is_not_shown()


@pytest.mark.parametrize("form", FORMS)
def test_hosts_stay(form: str) -> None:
    """Redaction keeps the rest of an address, which distinguishes the contexts."""
    shown = redact_url(filled(form, "secret"))
    assert "secret" not in shown
    assert "***@127.0.0.1:" in shown
    assert redact_url(shown) == shown
    assert redact_url(filled(form, "secret").replace("anna:secret@", "").replace("secret@", "")).count("***") <= 2


def test_what_stays_as_it_is() -> None:
    for text in (
        "nats://host:4222",
        "nats://a:1,nats://b:2",
        "tls://[::1]:4222/",
        "write to support@example.com",
        "https://nats.io/a/b, then me@example.com",
        "orders.eu.1",
    ):
        assert redact(text) == text
        if "," not in text and " " not in text:
            assert redact_url(text) == text
    assert redact_url("nats://a:x@h1:1,nats://h2:2,tls://t@h3:3") == "nats://***@h1:1,nats://h2:2,tls://***@h3:3"
    with masking.known(["orders@eu", "-x=a=b@c", "{'a': 1}"]):
        assert masking.mask("orders@eu a=b@c") == "orders@eu a=b@c"


FIELDS: list[dict[str, Any]] = [
    {"password": HIDDEN, "user": "ann"},
    {"token": HIDDEN},
    {"user": HIDDEN},  # a token, for the nats tool
    {"user_jwt": HIDDEN},
    {"user_seed": HIDDEN},
    {"later_secret": {"a": HIDDEN}},
    {"servers": [f"nats://a:{HIDDEN}@h"]},
    {"nsc": f"nsc://o/a/u?x=nats%253A%252F%252Fa%253A{HIDDEN}%2540h"},
]


@pytest.mark.parametrize("fields", FIELDS, ids=lambda fields: next(iter(fields)))
def test_fields_that_are_secrets(fields: dict[str, Any], cli: Command, contexts: Path) -> None:
    (contexts / "p.json").write_text(json.dumps({"url": "nats://h", **fields}), "utf-8")
    shown = cli("context", "show", "p").out + cli("context", "show", "p", "--json").out
    assert "***" in shown
    assert HIDDEN not in shown
    assert ("ann" in shown) == ("ann" in fields.values())


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    with NatsServer(config=f'authorization {{ user: "ann", password: "{HIDDEN}/@" }}') as server:
        yield server.url


def test_connections_have_the_real_values(cli: Command, contexts: Path, guarded: str) -> None:
    url = guarded.replace("//", f"//ann:{HIDDEN}%2F%40@")
    (contexts / "p.json").write_text(json.dumps({"url": url}), "utf-8")
    assert cli("stream", "ls", "--context", "p").code == 0
    (contexts / "p.json").write_text(json.dumps({"url": url.replace(HIDDEN, f"wrong-{HIDDEN}")}), "utf-8")
    refused = cli("stream", "ls", "--context", "p")
    assert (refused.code, HIDDEN in refused.err) == (1, False)


def test_context_files_keep_the_real_values_and_are_private(cli: Command, contexts: Path, guarded: str) -> None:
    Path("password").write_text(f"{HIDDEN}/@", "utf-8")
    name = "n" * 250
    made = cli("context", "add", name, "--server", guarded, "--user", "ann", "--password-file", "password", "--select")
    assert (made.code, made.err) == (0, "")
    file = contexts / f"{name}.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text("utf-8"))["password"] == f"{HIDDEN}/@"
    assert cli("stream", "ls").code == 0
    # The nats tool may have made the file readable for other users.
    selected = contexts.parent / "context.txt"
    selected.chmod(0o644)
    assert cli("context", "select", name).code == 0
    assert stat.S_IMODE(selected.stat().st_mode) == 0o644
    assert [path.name for path in contexts.iterdir()] == [file.name]
    selected.unlink()
    selected.mkdir()
    assert cli("context", "select", name).code == 1
    assert sorted(path.name for path in contexts.parent.iterdir()) == ["context", "context.txt"]
