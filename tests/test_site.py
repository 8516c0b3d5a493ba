"""The site builds strictly, its examples run, each error has a section, and no page loads files from other hosts."""

from __future__ import annotations

import contextlib
import html
import importlib.util
import inspect
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jetarrow.errors
import jetarrow.js.errors
import jetarrow.sync
import pytest
from jetarrow.server import NatsServer

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ADDRESS = "nats://localhost:4222"
# Pages whose programs run here, in order, on one server per page. The output of a program is the block below it.
PROGRAMS = ["archive-scan", "index", "start", "publish", "consume", "read", "doctor"]
# Tests that run the programs of the other pages.
ELSEWHERE = {
    "consumer-groups": "groups/test_docs.py",
    "data": "test_cookbook.py",
    "deployment": "test_site.py",
    "formats": "test_formats.py",
    "key-value": "kv/test_docs.py",
    "newer-servers": "test_docs.py",
    "object-store": "objects/test_docs.py",
    "operations": "sinks/test_docs.py",
    "operate": "test_cookbook.py",
    "polars": "test_polars_chains.py",
    "pipes": "pipes/test_docs.py",
    "servers": "system/test_docs.py",
    "services": "micro/test_docs.py",
    "spark-environments": "spark/test_pipelines.py",
    "sinks": "sinks/test_docs.py",
    "spark": "spark/test_docs.py",
    "state": "test_state_docs.py",
    "tables": "test_publish_table.py",
    "tables-with-keys": "sinks/test_docs.py",
    "worker": "test_worker_page.py",
    "successors": "successors/test_docs.py",
}
_BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = _BLOCK.findall((DOCS / f"{name}.md").read_text("utf-8"))
    assert blocks
    with NatsServer() as server:
        for program, expected in blocks:
            assert ADDRESS in program
            code = compile(program.replace(ADDRESS, server.url), f"docs/{name}.md", "exec")
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(code, {"__name__": "__main__"})
            if expected:
                assert printed.getvalue() == expected


def test_every_page_with_programs_is_run() -> None:
    pages = {path.stem for path in DOCS.rglob("*.md") if "```python" in path.read_text("utf-8")}
    assert pages == {*PROGRAMS, *ELSEWHERE}
    for page, test in ELSEWHERE.items():
        assert f"{page}.md" in (ROOT / "tests" / test).read_text("utf-8"), page


def test_deployment(nats_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The first program names servers that do not exist: only its definitions run, and its options are checked."""
    (program, _), (watching, told) = _BLOCK.findall((DOCS / "deployment.md").read_text("utf-8"))
    names: dict[str, object] = {}
    exec(compile(program, "docs/deployment.md", "exec"), names)
    options = set(re.findall(r"^ +(\w+)=", program, re.MULTILINE)) | {"context"}
    known = set(inspect.signature(jetarrow.Client.connect).parameters)
    assert len(options) == 5
    assert options <= known
    exec(compile(watching.replace(ADDRESS, nats_url), "docs/deployment.md", "exec"), {})
    assert capsys.readouterr().out == told


def test_documented_permissions_are_sufficient() -> None:
    """A user with the permissions in the table and an inbox prefix of its own can execute the operations."""
    page = (DOCS / "deployment.md").read_text("utf-8")
    rows = [line.split("|")[1:3] for line in re.findall(r"^\|.*\|$", page[page.index("| operation |") :], re.MULTILINE)]
    table = {operation.strip(): re.findall(r"`([\w.$>*]+)`", publish) for operation, publish in rows}

    def user(name: str, *operations: str) -> str:
        subjects = ", ".join(f'"{subject}"' for one in operations for subject in table[one])
        permissions = f'publish: {{ allow: [{subjects}] }}, subscribe: {{ allow: ["_INBOX_{name}.>"] }}'
        return f"{{ user: {name}, password: x, permissions: {{ {permissions} }} }}"

    users = [
        "{ user: admin, password: x }",
        user("writer", "publish"),
        user("worker", "create and inspect the consumer", "fetch", "acknowledge"),
        user("reader", "`js.read`"),
    ]
    with NatsServer(config=f"authorization {{ users: [ {', '.join(users)} ] }}") as server:

        def connected(name: str) -> jetarrow.sync.Client:
            inbox = {} if name == "admin" else {"inbox_prefix": f"_INBOX_{name}"}
            return jetarrow.sync.connect(server.url, user=name, password="x", **inbox)

        with connected("admin") as nc:
            nc.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
        with connected("writer") as nc:
            nc.jetstream().publish_batch("orders.a", ["1", "2", "3"]).raise_for_errors()
            assert nc.last_error is None
        with connected("worker") as nc:
            sub = nc.jetstream().pull_subscribe("orders.>", durable="billing", stream="ORDERS")
            batch = sub.fetch_batch(3, timeout=5)
            batch.ack_sync()
            assert (len(batch), sub.consumer_info().num_ack_pending, nc.last_error) == (3, 0, None)
        with connected("reader") as nc:
            assert nc.jetstream().read("ORDERS").read_all().num_rows == 3
            assert nc.last_error is None


def test_every_error_has_a_troubleshooting_section() -> None:
    """The page has one section per error, and each error's docstring ends with the address of its section."""
    page = (DOCS / "troubleshooting.md").read_text("utf-8")
    headings = re.findall(r"^### (\w+)$", page, re.MULTILINE)
    classes = {
        found
        for module in (jetarrow.errors, jetarrow.js.errors)
        for name, found in vars(module).items()
        if inspect.isclass(found) and issubclass(found, jetarrow.errors.Error) and not name.startswith("_")
    }
    assert len(classes) > 50
    assert sorted(headings) == sorted(set(headings))
    assert set(headings) == {found.__name__ for found in classes}
    for found in classes:
        last = (inspect.getdoc(found) or "").splitlines()[-2:]
        assert last == ["", f"What to do: docs/troubleshooting.md#{found.__name__.lower()}"]


@pytest.mark.timeout(300)
@pytest.mark.skipif(importlib.util.find_spec("material") is None, reason="mkdocs-material is not installed")
def test_site_builds_strictly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    pages = {path.relative_to(tmp_path).as_posix(): path.read_text("utf-8") for path in tmp_path.rglob("*.html")}
    assert len(pages) > 30
    # Scripts, styles, pictures and fonts are part of the site.
    for name, text in pages.items():
        assert re.findall(r'(?:src|<link[^>]*href)="https?://[^"]*"', text) == [], name
    assert 'id="jetarrow.jetstream.context.JetStreamContext.publish_batch"' in pages["reference/jetstream.html"]
    assert 'id="jetarrow._jetarrow.Msg"' in pages["reference/native.html"]
    assert 'href="reliability.html"' in pages["index.html"]
    assert 'href="flights.html"' in pages["index.html"]
    places = re.findall(r'href="\.\./troubleshooting\.html#(\w+)"', pages["reference/errors.html"])
    assert len(set(places)) > 50
    assert all(f'id="{place}"' in pages["troubleshooting.html"] for place in places)
    assert pages["flights.html"].count('src="flights-') == len(list(tmp_path.glob("flights-*.png"))) == 3
    assert "../MIGRATION.md" not in "".join(pages.values())
    assert 'src="architecture.svg"' in pages["index.html"]
    check_links(tmp_path, pages)
    check_search_terms(tmp_path)
    check_sync_reference(pages["reference/sync.html"])


def check_links(site: Path, pages: dict[str, str]) -> None:
    """Each link inside the site, also of raw HTML and of navigation, has its file and its anchor."""
    ids = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in pages.items()}
    count, broken = 0, []
    for name, text in pages.items():
        for link in re.findall(r'(?:href|src)="([^"]+)"', text):
            path, _, place = html.unescape(link).partition("#")
            if ":" in path or path.startswith("//") or name == "404.html":
                continue
            count += 1
            target = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            target = f"{target}/index.html" if (site / target).is_dir() else target
            place_is_known = not place or place in ids.get(target, ()) or place.startswith("__")
            if not (site / target).exists() or not place_is_known:
                broken.append((name, link))
    assert count > 5000
    assert broken == []


# Words of the field, and the page that the search lists first for each. A tag outranks titles and text.
FIRST = {
    "backpressure": "publish.html",
    "in-flight": "consume.html",
    "metadata": "faq.html",
    "at-least-once": "worker.html",
    "idempotency": "publish.html",
    "checkpoint": "sinks.html",
}


def check_search_terms(site: Path) -> None:
    """Each term has its page among the documents with a tag, and that page explains it."""
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    assert index["config"]["fields"]["tags"]["boost"] > index["config"]["fields"]["title"]["boost"]
    for term, page in FIRST.items():
        documents = [entry for entry in index["docs"] if entry["location"].partition("#")[0] == page]
        assert term in documents[0]["tags"]
        assert any(term in f"{entry['title']} {entry['text']}".lower() for entry in documents), (term, page)
        tagged = {entry["location"].partition("#")[0] for entry in index["docs"] if term in entry.get("tags", ())}
        assert len(tagged) <= 3


def check_sync_reference(page: str) -> None:
    """Each public method and property of each class of jetarrow.sync is there."""
    count, absent = 0, []
    for name in jetarrow.sync.__all__:
        found = getattr(jetarrow.sync, name)
        if not inspect.isclass(found) or name == "Msg":
            continue
        for member in dir(found):
            value = inspect.getattr_static(found, member)
            is_method = isinstance(value, property) or inspect.isfunction(getattr(found, member))
            # nats-py's static helper, which the reference of JetStream has.
            if member.startswith("_") or member == "is_status_msg" or not is_method:
                continue
            count += 1
            if f'id="{found.__module__}.{name}.{member}"' not in page:
                absent.append(f"{name}.{member}")
    assert count > 250
    assert absent == []
