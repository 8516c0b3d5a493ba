"""Older Sparks, 4.0 and 4.1, in environments of their own: their table in docs/spark.md, and a part of the suite.

JETARROW_WRITE_DOCS=1 writes the table. `make test-spark40` and `make test-spark41` run all of tests/spark.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jetarrow
import jetarrow.sync
import pyspark
import pytest
from jetarrow.server import NatsServer

from .probe import ROWS
from .tools import release

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "spark.md"
PROBE = Path(__file__).with_name("probe.py")
NEWEST = ".".join(map(str, release(pyspark.__version__)))
OLDER = ("4.0", "4.1")
BEGIN, END = "<!-- written by tests/spark/test_older.py -->\n", "<!-- end -->\n"
# Tests of every layer that need little time. All of them run with `make test-spark40` and `make test-spark41`.
SUBSET = ["test_core.py", "test_schema.py", "test_stream.py", "test_stream_reader.py"]

pytestmark = [
    pytest.mark.xdist_group("spark_processes"),
    pytest.mark.timeout(600),  # three JVM starts on a busy machine
    # These tests start the versions themselves.
    pytest.mark.needs_spark("4.2", "the comparison of versions"),
]


def command(version: str) -> tuple[str, dict[str, str]]:
    """The Python of a version of Spark, and its environment."""
    environment = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "SPARK_REMOTE")}
    for variable in (*(name for name in os.environ if name.startswith("PYTEST_XDIST")), "PYSPARK_GATEWAY_PORT"):
        environment.pop(variable, None)
    ours, packages = Path(jetarrow.__file__).parents[1], Path(pyspark.__file__).parents[1]
    python, path = Path(sys.executable), [ours]
    if version != NEWEST:
        name = f"spark{version.replace('.', '')}"
        python = ROOT / f".venv-{name}" / "bin" / "python"
        if not python.exists():
            pytest.skip(f"no environment with Spark {version}: make .stamps/{name}")
        # Its pyspark is found before the newest one, with which pytest is installed.
        [site] = (ROOT / f".venv-{name}" / "lib").glob("python*/site-packages")
        path += [site, packages]
    environment |= {
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return str(python), environment


def observe(version: str, folder: Path) -> dict[str, str]:
    """Run the probe with a version of Spark on a server of its own; returns what it observed by feature."""
    python, environment = command(version)
    folder.mkdir()
    with NatsServer() as server, jetarrow.sync.connect(server.url) as nc:
        js = nc.jetstream()
        for name in ("SOURCE", "TARGET"):
            js.add_stream(name=name, subjects=[f"{name.lower()}.>"])
        js.publish_batch("source.a", [b"%d" % number for number in range(ROWS)]).raise_for_errors()
        # Another stream than the checkpoint's has messages too.
        js.publish_batch("target.b", [b"x"] * 5).raise_for_errors()
        done = subprocess.run(
            [python, str(PROBE), server.url, str(folder)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            cwd=folder,
            check=False,
        )
        copies = js.stream_info("TARGET").state.messages - 5
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["version"].startswith(f"{version}.")
    features: dict[str, str] = found["features"]
    written = features['`writeStream.format("jetstream")`'] == "yes"
    assert copies == (ROWS + 10 if written else 0)
    return features


@pytest.mark.skipif("JETARROW_SPARK_VERSIONS" not in os.environ, reason="minutes long: make test-spark-versions")
def test_table_of_versions_is_as_observed(tmp_path: Path) -> None:
    versions = [*OLDER, NEWEST]
    found = {version: observe(version, tmp_path / version) for version in versions}
    features = list(found[NEWEST])
    assert len(features) >= 10
    lines = [f"| feature | {' | '.join(versions)} |", f"|---|{'---|' * len(versions)}"]
    lines += [f"| {feature} | {' | '.join(found[one][feature] for one in versions)} |" for feature in features]
    table = "\n".join(lines) + "\n"
    page = PAGE.read_text("utf-8")
    before, _, rest = page.partition(BEGIN)
    documented, _, after = rest.partition(END)
    assert after, f"docs/spark.md has no lines {BEGIN!r} and {END!r}"
    if os.environ.get("JETARROW_WRITE_DOCS") == "1":
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", "utf-8")
    else:
        assert documented.strip() == table.strip(), (
            "run this test with JETARROW_WRITE_DOCS=1 and JETARROW_SPARK_VERSIONS=1 to write the table"
        )


@pytest.mark.parametrize("version", OLDER)
@pytest.mark.slow
def test_part_of_the_suite_passes_with_an_older_spark(version: str) -> None:
    python, environment = command(version)
    files = [str(PROBE.with_name(name)) for name in SUBSET]
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short", "-rs"]
    done = subprocess.run(
        [python, "-m", "pytest", *files, *options],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    # The tests ran with this version, because it lacks features.
    assert f"needs Spark 4.2, this is {version}." in done.stdout
    assert " passed" in done.stdout
