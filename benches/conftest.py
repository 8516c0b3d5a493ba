"""One server and one run of each group for all bench tests; the table at the end. Run by `make bench`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# pytest imports test modules by path (importlib mode), so our own modules have to be findable by name.
sys.path.insert(0, str(Path(__file__).parent))

import report
from harness import Group, Result, Runner, installed
from pytest_benchmark.fixture import BenchmarkFixture

RESULTS = "JETARROW_BENCH_RESULTS"  # where the JSON goes; else .benchmarks/results.json
MACHINE = pytest.StashKey[dict[str, object]]()
RUNNER = pytest.StashKey[Runner]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bench-rounds", type=int, default=3, help="rounds that count (default 3)")
    parser.addoption("--bench-scale", type=float, default=1.0, help="factor on all message counts")
    parser.addoption("--bench-full", action="store_true", help="payload sizes and windows too (minutes more)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path.name == "test_full.py" and not config.getoption("bench_full") else None


def pytest_configure(config: pytest.Config) -> None:
    if installed("jetarrow._jetarrow"):
        import jetarrow._jetarrow

        if jetarrow._jetarrow.__debug_build__:
            pytest.exit("benches need a release build: run make bench", returncode=2)
    config.option.benchmark_quiet = True  # its table would be a second one; its JSON and its compare work
    options = {name: config.getoption(f"bench_{name}") for name in ("rounds", "scale")}
    config.stash[MACHINE] = report.machine() | options


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # The first test of a group runs all its rounds. A limit against a hang, not a figure to meet.
        item.add_marker(pytest.mark.timeout(900))
        item.add_marker(pytest.mark.benchmark(timer=Replay.timer))


class Replay:
    """A timer for pytest-benchmark that shows the times already measured.

    pytest-benchmark runs all rounds of one test before the next test, and we interleave the rounds of all
    rows. So the harness measures, and `benchmark.pedantic` "runs" a target that turns this clock on by what
    was measured, per message: its statistics, JSON and comparison work as ever, with OPS = messages a second.
    """

    now = 0.0

    @classmethod
    def timer(cls) -> float:
        return cls.now


@pytest.fixture(scope="session")
def runner(pytestconfig: pytest.Config) -> Iterator[Runner]:
    from jetarrow.server import NatsServer  # here, so that collecting does not need the extension

    rounds, scale = pytestconfig.getoption("bench_rounds"), pytestconfig.getoption("bench_scale")
    with NatsServer(config="http: 127.0.0.1:-1") as server:
        made = Runner(server.url, monitor_of(server.log), server.pid, rounds, scale)
        pytestconfig.stash[RUNNER] = made
        yield made
        # If the server disconnected a slow client, or dropped messages, the figures are invalid.
        pytestconfig.stash[MACHINE]["slow_consumer_lines"] = server.log.lower().count("slow consumer")


def monitor_of(log: str) -> str:
    """Return the address of the server's monitoring endpoint, whose port the server has chosen."""
    found = re.search(r"Starting http monitor on (\S+)", log)
    assert found, log
    return found[1]


@pytest.fixture
def record(benchmark: BenchmarkFixture, runner: Runner, request: pytest.FixtureRequest) -> Callable[[Group, str], None]:
    """Passes the rounds of a row to pytest-benchmark. The first row of a group runs the whole group."""

    def recorded(group: Group, name: str) -> None:
        result = runner.result(group, name, _selected(request))
        if result.skipped:
            pytest.skip(result.skipped)
        if result.error:
            raise result.error
        _replay(benchmark, result)

    return recorded


def _selected(request: pytest.FixtureRequest) -> list[str]:
    """Return the rows of this test function that pytest has selected (`-k` excludes some)."""
    function = request.node.originalname
    same = [item for item in request.session.items if getattr(item, "originalname", None) == function]
    return [getattr(item, "callspec").params["name"] for item in same]  # noqa: B009 (not in pytest's types)


def _replay(benchmark: BenchmarkFixture, result: Result) -> None:
    times = iter([run.seconds / run.count for run in result.runs])

    def advance() -> None:
        Replay.now += next(times)

    benchmark.group = result.group.name
    benchmark.extra_info.update(
        messages=result.runs[0].count,
        client_cpu_us=result.per_message("client_cpu"),
        server_cpu_us=result.per_message("server_cpu"),
        **result.notes,
    )
    pedantic: Callable[..., None] = benchmark.pedantic  # has no types itself
    pedantic(advance, rounds=len(result.runs))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    made = config.stash.get(RUNNER, None)
    if made is None or not made.results:
        return
    folder = config.rootpath / ".benchmarks"
    path = Path(os.environ.get(RESULTS) or folder / "results.json")
    # `make bench-compare` needs three runs of all rows.
    has_all = not config.getoption("keyword") and [Path(name).name for name in config.args] == ["benches"]
    runs = folder / "runs" if has_all and RESULTS not in os.environ else None
    width = terminalreporter._tw.fullwidth
    report.write(config.stash[MACHINE], made.results.values(), path, width=width, runs=runs)
