"""docs/recipes (data.md, services.md, operate.md): the programs run as they are, and print the shown output."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import types
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import jetarrow.sync
import pytest
import yaml
from jetarrow._spawn import find_executable
from jetarrow.server import NatsServer

from .tools import free_port, gjson

ROOT = Path(__file__).parents[1]
RECIPES = ROOT / "docs" / "recipes"
ADDRESS = "nats://localhost:4222"
_RECIPE = re.compile(r"^## (.+?)$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_PROGRAM = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
# Each recipe of each page, by title.
FOUND = {
    title: (page.stem, text)
    for page in sorted(RECIPES.glob("*.md"))
    for title, text in _RECIPE.findall(page.read_text("utf-8"))
}
PROGRAMS = {title: _PROGRAM.search(text) for title, (_, text) in FOUND.items()}


def anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


@pytest.mark.parametrize("title", [title for title, program in PROGRAMS.items() if program])
def test_recipe(title: str, own_server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = PROGRAMS[title]
    assert program
    assert ADDRESS in program[1]
    code = compile(program[1].replace(ADDRESS, own_server.url), title, "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {"__name__": "__main__"})
    assert printed.getvalue() == program[2]


def block(title: str, language: str, number: int = 0) -> str:
    """A block of a recipe."""
    found = re.findall(rf"```{language}\n(.*?)```", FOUND[title][1], re.DOTALL)
    assert found, (title, language)
    return str(found[number])


# Tests of the recipes without printed output.
OTHERS = {
    "Publish from FastAPI": "test_fastapi",
    "Connect with TLS and an NKEY": "connect/test_recipe.py",
    "Run a worker with Docker compose": "test_compose",
    "Scale workers in Kubernetes with KEDA": "test_keda",
    "Serve consumer lag to Prometheus and KEDA": "test_lag_endpoint",
    "Archive every hour with Dagster or Airflow": "test_scheduled_archive",
    "Test with a real server": "test_pytest_recipe",
}


def test_each_recipe_is_tested_and_listed() -> None:
    assert len(FOUND) >= 20
    assert {title for title, program in PROGRAMS.items() if not program} == set(OTHERS)
    for test in OTHERS.values():
        assert (Path(__file__).parent / test).exists() if "/" in test else test in globals(), test
    cookbook = (ROOT / "docs" / "cookbook.md").read_text("utf-8")
    links = re.findall(r"\]\(recipes/(\w+)\.md#([\w-]+)\)", cookbook)
    assert sorted(links) == sorted((page, anchor(title)) for title, (page, _) in FOUND.items())


async def _get(app: Any, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
    """Sends one request to an ASGI application."""
    sent: list[dict[str, Any]] = []
    scope = {"type": "http", "method": method, "path": path, "headers": [], "query_string": b"", "http_version": "1.1"}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app({**scope, "raw_path": path.encode(), "scheme": "http", "asgi": {"version": "3.0"}}, receive, send)
    content = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], json.loads(content) if content else None


async def test_fastapi(own_server: NatsServer) -> None:
    pytest.importorskip("fastapi")
    names: dict[str, Any] = {}
    exec(block("Publish from FastAPI", "python").replace(ADDRESS, own_server.url), names)
    app = names["app"]
    async with app.router.lifespan_context(app):
        assert await _get(app, "GET", "/ready") == (200, None)
        assert await _get(app, "POST", "/orders/7", b"{}") == (202, {"seq": 1, "duplicate": False})
        assert await _get(app, "POST", "/orders/7", b"{}") == (202, {"seq": 1, "duplicate": True})
        await app.state.js.delete_stream("SHOP")
        assert await _get(app, "POST", "/orders/8", b"{}") == (503, {"detail": "not stored, try again"})


def test_compose() -> None:
    """The names that the two files and the worker share."""
    worker = (ROOT / "docs" / "worker.md").read_text("utf-8")
    services = yaml.safe_load(block("Run a worker with Docker compose", "yaml"))["services"]
    assert set(services["worker"]["environment"]) == {"NATS_URL", "HEALTH_PORT"}
    assert 'os.environ.get("HEALTH_PORT", "8080")' in worker
    assert services["worker"]["environment"]["NATS_URL"] == "nats://nats:4222"
    assert services["worker"]["stop_grace_period"] == f"{_ack_wait(worker)}s"
    assert services["worker"]["depends_on"] == {"nats": {"condition": "service_healthy"}}
    dockerfile = block("Run a worker with Docker compose", "dockerfile")
    assert "COPY worker.py" in dockerfile
    assert 'CMD ["python", "worker.py"]' in dockerfile


def test_server_accepts_the_options_of_the_compose_file() -> None:
    command = yaml.safe_load(block("Run a worker with Docker compose", "yaml"))["services"]["nats"]["command"]
    said = subprocess.run([find_executable(), "--help"], capture_output=True, text=True, check=True)
    known = said.stdout + said.stderr
    options = [option for option in command if option.startswith("--")]
    assert len(options) == 3
    assert [option for option in options if option not in known] == []


def test_keda(tmp_path: Path) -> None:
    """The monitoring port has the lag of the consumer that the worker creates, where KEDA looks for it."""
    scaled, deployment = (
        yaml.safe_load(block("Scale workers in Kubernetes with KEDA", "yaml", number)) for number in (0, 1)
    )
    trigger = scaled["spec"]["triggers"][0]["metadata"]
    worker = (ROOT / "docs" / "worker.md").read_text("utf-8")
    assert scaled["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert f'durable="{trigger["consumer"]}"' in worker
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == _ack_wait(worker)
    port = free_port()
    with NatsServer(config=f"http: 127.0.0.1:{port}\n") as server, jetarrow.sync.connect(server.url) as nc:
        js = nc.jetstream()
        js.add_stream(name=trigger["stream"], subjects=["orders.>"])
        js.publish_batch("orders.eu", [b"x"] * 5).raise_for_errors()
        js.pull_subscribe("orders.>", durable=trigger["consumer"]).fetch(2, timeout=2)
        address = f"http://127.0.0.1:{port}/jsz?acc={trigger['account']}&consumers=true&config=true"
        with urllib.request.urlopen(address, timeout=5) as answer:
            found = json.load(answer)
    (account,) = [one for one in found["account_details"] if one["name"] == trigger["account"]]
    (consumer,) = account["stream_detail"][0]["consumer_detail"]
    assert consumer["name"] == trigger["consumer"]
    assert consumer["num_pending"] + consumer["num_ack_pending"] == 5


def test_lag_endpoint() -> None:
    """KEDA finds the lag at the path of the ScaledObject, at the port and path that the Deployment serves."""
    title = "Serve consumer lag to Prometheus and KEDA"
    deployment, service = yaml.safe_load_all(block(title, "yaml"))
    trigger = yaml.safe_load(block(title, "yaml", 1))["spec"]["triggers"][0]["metadata"]
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    program, verb, stream, option, listen = container["args"]
    assert (program, verb, option) == ("jetarrow", "lag", "--serve")
    host, port = listen.split(":")
    assert host == "0.0.0.0"
    probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("liveness", "readiness")]
    ports = {str(probe["port"]) for probe in probes} | {str(one["port"]) for one in service["spec"]["ports"]}
    assert ports == {port, pod["metadata"]["annotations"]["prometheus.io/port"]} == {port}
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    address = urllib.parse.urlsplit(trigger["url"])
    assert (str(address.hostname).split(".")[0], str(address.port)) == (service["metadata"]["name"], port)
    with NatsServer() as server, jetarrow.sync.connect(server.url) as nc:
        js = nc.jetstream()
        js.add_stream(name=stream, subjects=["orders.>"])
        js.publish_batch("orders.eu", [b"x"] * 5).raise_for_errors()
        js.pull_subscribe("orders.>", durable="billing").fetch(2, timeout=2)
        command = [sys.executable, "-m", program, verb, stream, option, ":0", "--json"]
        env = {**os.environ, container["env"][0]["name"]: server.url}
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = json.loads("".join(process.stdout.readline() for _ in range(3)))["url"]
            for path in (address.path, *(probe["path"] for probe in probes)):
                with urllib.request.urlopen(url + path, timeout=10) as answer:
                    assert answer.status == 200
                    if path == address.path:
                        assert gjson(json.load(answer), trigger["valueLocation"]) == 5
            process.terminate()
            assert process.wait(30) == 0


def _ack_wait(worker: str) -> int:
    found = re.search(r"^ACK_WAIT = (\d+)", worker, re.MULTILINE)
    assert found
    return int(found[1])


def test_scheduled_archive(own_server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Dagster its names are stand-ins: then only the body of the asset is tested."""
    monkeypatch.chdir(tmp_path)
    if importlib.util.find_spec("dagster") is None:
        stand_in: Any = types.ModuleType("dagster")
        stand_in.asset = lambda function: function
        stand_in.define_asset_job = lambda name, assets: name
        stand_in.ScheduleDefinition = stand_in.Definitions = stand_in.MaterializeResult = types.SimpleNamespace
        monkeypatch.setitem(sys.modules, "dagster", stand_in)
    names: dict[str, Any] = {}
    exec(block("Archive every hour with Dagster or Airflow", "python").replace(ADDRESS, own_server.url), names)
    archive = names["orders_archive"]
    with jetarrow.sync.connect(own_server.url) as nc:
        js = nc.jetstream()
        js.add_stream(name="ORDERS", subjects=["orders.>"])
        for rows in (3, 2, 0):
            js.publish_batch("orders.eu", [b"x"] * rows).raise_for_errors()
            assert archive().metadata["rows"] == rows


def test_pytest_recipe(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(block("Test with a real server", "python"), "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
