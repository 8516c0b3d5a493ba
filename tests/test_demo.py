"""`python -m jetarrow.demo`, which is what `make demo` runs, only with fewer flights."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jetarrow.demo import flights

EXAMPLE = Path(__file__).parents[1] / "examples" / "flights.py"

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the demo with `tmp_path` for its temporary files, in a group of its own, as a terminal does."""
    started: list[subprocess.Popen[str]] = []

    def start(*args: str, **environment: str | None) -> subprocess.Popen[str]:
        wanted = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONIOENCODING": "utf-8", **environment}
        demo = subprocess.Popen(
            [sys.executable, "-m", "jetarrow.demo", *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env={name: value for name, value in wanted.items() if value is not None},
            start_new_session=True,
        )
        started.append(demo)
        return demo

    yield start
    for demo in started:
        demo.kill()
        demo.communicate()


def processes(folder: Path) -> list[str]:
    """The commands that run with their temporary files below a folder: the demo and what it started."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile, or not ours
            if f"TMPDIR={folder}".encode() in process.joinpath("environ").read_bytes():
                found.append(process.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def check_nothing_left(folder: Path) -> None:
    assert list(folder.iterdir()) == []
    # Spark's workers are gone with the JVM, but it does not wait for them.
    deadline = time.monotonic() + 10
    while (left := processes(folder)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert left == []


@linux
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(300)
def test_demo(start: Start, tmp_path: Path) -> None:
    demo = start("--rows", "20000")
    output, errors = demo.communicate(timeout=280)
    assert (demo.returncode, errors) == (0, "")
    assert "20,000 stored, 0 duplicates" in output
    assert "0 stored, 20,000 duplicates" in output
    assert "20,000 fetched and acknowledged, none left pending" in output
    for step in (
        "make the JSON documents",
        "publish_batch",
        "publish_batch again",
        "js.read into Arrow",
        "fetch_batch + ack",
        "Spark: carriers",
        "Spark: busiest routes",
    ):
        assert re.search(rf"^ *{re.escape(step)} +20,000 +\d+\.\d\d +[\d,]+ *$", output, re.MULTILINE), step
    for step in ("nats-py publish_async", "nats-py fetch + ack"):
        row = rf"^ *{re.escape(step)} +20,000 +\d+\.\d\d +[\d,]+ +\d+\.\d x as fast *$"
        assert re.search(row, output, re.MULTILINE), step
    assert re.search(r"^ *UA +3,445 +1\.71 +JFK to LAX +698 *$", output, re.MULTILINE)
    assert output.endswith("20,000 flights: pyarrow, Arrow from the stream and Spark have the same results.\n")
    assert "\x1b" not in output
    assert max(map(len, output.splitlines())) <= 80
    check_nothing_left(tmp_path)


@linux
@pytest.mark.parametrize(
    ("line", "rows", "runs"),
    [
        pytest.param("publish_batch ...", 100_000, "nats-server", id="publishing"),
        pytest.param("nats-py publish_async ...", 20_000, "nats-server", id="nats-py"),
        pytest.param(
            "start Spark ...",
            2_000,
            "nats-server",
            id="starting Spark",
            marks=[pytest.mark.spark, pytest.mark.xdist_group("spark")],
        ),
        pytest.param(
            "Spark: carriers ...",
            2_000,
            "org.apache.spark",
            id="in Spark",
            marks=[pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")],
        ),
    ],
)
def test_ctrl_c(start: Start, tmp_path: Path, line: str, rows: int, runs: str) -> None:
    demo = start("--rows", str(rows))
    assert demo.stdout is not None
    assert line in (said.rstrip("\n") for said in demo.stdout)
    running = processes(tmp_path)
    os.killpg(demo.pid, signal.SIGINT)  # the group is the one made above
    _, errors = demo.communicate(timeout=60)
    assert (demo.returncode, errors) == (130, "stopped by Ctrl-C; all files are deleted\n")
    assert any(runs in command for command in running), "or the check that nothing is left sees nothing"
    check_nothing_left(tmp_path)


def test_without_java(start: Start, tmp_path: Path) -> None:
    demo = start(PATH="", JAVA_HOME=None)
    output, errors = demo.communicate(timeout=60)
    assert (demo.returncode, output) == (1, "")
    assert errors == "Spark requires Java 17 or newer, and java was not found; install a JDK\n"
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_installed_is_named(start: Start, tmp_path: Path) -> None:
    tmp_path.joinpath("rich.py").write_text("raise ModuleNotFoundError('no', name='rich')", "utf-8")
    demo = start(PYTHONPATH=os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]))
    _, errors = demo.communicate(timeout=60)
    assert (demo.returncode, errors) == (1, 'the demo requires rich; run: pip install "jetarrow[demo]"\n')


def test_the_example_is_the_demo() -> None:
    command = [sys.executable, str(EXAMPLE), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "--rows" in done.stdout


def test_needs_at_least_one_row(start: Start) -> None:
    demo = start("--rows", "0")
    _, errors = demo.communicate(timeout=60)
    assert demo.returncode == 2
    assert "--rows must be at least 1" in errors


def test_any_other_number_is_a_failure() -> None:
    carriers, routes = [("UA", 3, 7.25), ("OO", 1, None)], [("JFK", "LAX", 2)]
    expected = flights.Answers(carriers, routes)
    flights.compare("Spark", flights.Answers([("UA", 3, 7.25 * (1 + 1e-10)), ("OO", 1, None)], routes), expected)
    for other in (
        flights.Answers([("UA", 4, 7.25), ("OO", 1, None)], routes),
        flights.Answers([("UA", 3, 7.25 * (1 + 1e-8)), ("OO", 1, None)], routes),
        flights.Answers([("UA", 3, 7.25), ("OO", 1, 0.0)], routes),
        flights.Answers([("UA", 3, None), ("OO", 1, None)], routes),
        flights.Answers(carriers[:1], routes),
        flights.Answers(carriers, [("JFK", "LAX", 3)]),
        flights.Answers(carriers, []),
    ):
        with pytest.raises(flights.DemoError, match=r"^Spark, .+ expected "):
            flights.compare("Spark", other, expected)
