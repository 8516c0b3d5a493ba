"""spark-submit to workers whose own Python has no jetarrow: the commands of docs/spark.md, and those that fail."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jetarrow.sync
import pytest
from jetarrow.server import NatsServer

from .environments import STARTS, make_environment, make_wheel
from .standalone import PATIENCE, SPARK_HOME, kill, spark_environment, standalone, start

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark_processes"), pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs" / "spark.md").read_text("utf-8").partition("\n## On a cluster\n")[2].partition("\n## ")[0]
INSTALLED, SHIPPED = (re.sub("^ {4}", "", block, flags=re.M) for block in re.findall(r"(?:^ {4}.*\n)+", SECTION, re.M))
READ = """
import sys
from pyspark.sql import SparkSession

try:
    import jetarrow
except ImportError as error:
    print("import:", error)
options = {"servers": sys.argv[1], "stream": "ROWS"}
spark = SparkSession.builder.getOrCreate()
try:
    print("rows:", spark.read.format("jetstream").options(**options).load().count())
except Exception as error:
    print("format:", *str(error).splitlines())
"""
SETTINGS = """
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.ui.enabled false
spark.executor.memory 512m
spark.sql.shuffle.partitions 2
"""


class Cluster(NamedTuple):
    """A cluster of workers with a bare Python, and the folder from which jobs are submitted."""

    folder: Path
    master: str
    wheel: Path
    bare: Path

    def run(self, script: str, cwd: Path, **variables: str | Path) -> str:
        """Runs a shell script on the driver's machine, with a nats-server of its own; returns all output."""
        (self.folder / "conf").mkdir(exist_ok=True)
        (self.folder / "conf" / "spark-defaults.conf").write_text(SETTINGS)
        (self.folder / "starts").write_text("")
        environment = spark_environment(self.folder, None)
        environment |= {"SPARK_CONF_DIR": str(self.folder / "conf"), STARTS: str(self.folder / "starts")}
        environment["PATH"] = f"{SPARK_HOME / 'bin'}:{self.bare.parent}:{environment['PATH']}"
        environment |= {name: str(value) for name, value in variables.items()}
        with NatsServer() as server, jetarrow.sync.connect(server.url) as nc:
            nc.jetstream().add_stream(name="ROWS", subjects=["rows.>"])
            nc.jetstream().publish_batch("rows.a", [b"row"] * 100).raise_for_errors()
            script = script.replace("spark://master:7077", self.master).replace("nats://nats:4222", server.url)
            process = start(["bash", "-euc", script], log=cwd / "log", environment=environment, cwd=cwd)
            try:
                process.wait(PATIENCE)
            finally:
                kill(process)
        return (cwd / "log").read_text(errors="replace")

    def starts(self) -> set[tuple[str, str]]:
        """The prefix of each Python that was started, and where: `driver`, or `executor`."""
        found = set()
        for line in (self.folder / "starts").read_text().splitlines():
            prefix, cwd = line.split("\t")
            machine = "executor" if cwd.startswith(str(self.folder / "work")) else "driver"
            found.add((prefix.replace(cwd, ".") if machine == "executor" else prefix, machine))
        return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("submit")
    with pytest.MonkeyPatch.context() as patch:
        # It may have the jetarrow that is tested.
        patch.delenv("PYTHONPATH", raising=False)
        patch.setenv(STARTS, str(folder / "starts"))
        bare = make_environment(folder / "bare", None)
        with standalone(folder, python=bare) as (master, _):
            yield Cluster(folder, master, make_wheel(folder), bare)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The working directory of the driver."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "read.py").write_text(READ)
    return tmp_path


@pytest.mark.needs_spark("4.1", "writeStream.format('jetstream')")
@pytest.mark.slow
def test_job_runs_with_an_environment_on_every_machine(cluster: Cluster, place: Path) -> None:
    python = make_environment(place / "jobs", cluster.wheel)
    assert "/opt/jobs/bin/python" in INSTALLED
    output = cluster.run(INSTALLED.replace("/opt/jobs/bin/python", str(python)), place)
    assert "500 sales of 2000 clicks" in output, output[-4000:]
    assert cluster.starts() == {(str(place / "jobs"), "driver"), (str(place / "jobs"), "executor")}


@pytest.mark.needs_spark("4.1", "writeStream.format('jetstream')")
@pytest.mark.slow
def test_job_runs_with_an_environment_in_archives(cluster: Cluster, place: Path) -> None:
    create, install, *commands = SHIPPED.splitlines(keepends=True)
    assert create == "python3 -m venv environment\n"
    assert install == 'environment/bin/pip install "jetarrow[arrow]"\n'
    make_environment(place / "environment", cluster.wheel)
    output = cluster.run("".join(commands), place)
    assert "500 sales of 2000 clicks" in output, output[-4000:]
    # The driver's working directory has an environment too, and each executor the one that it unpacked.
    assert cluster.starts() == {(str(place / "environment"), "driver"), ("./environment", "executor")}


@pytest.mark.slow
def test_driver_python_of_the_environment_runs_the_format_on_executors(cluster: Cluster, place: Path) -> None:
    """The reason to unset it: on machines of their own, executors would not have this path."""
    python = make_environment(place / "environment", cluster.wheel)
    command = "spark-submit --master spark://master:7077 read.py nats://nats:4222"
    output = cluster.run(command, place, PYSPARK_DRIVER_PYTHON=python, PYSPARK_PYTHON=cluster.bare)
    assert "rows: 100" in output, output[-4000:]
    assert (str(place / "environment"), "executor") in cluster.starts()


@pytest.mark.slow
def test_wheel_in_py_files_is_refused_with_the_reason(cluster: Cluster, place: Path) -> None:
    command = f"spark-submit --master spark://master:7077 --py-files {cluster.wheel} read.py nats://nats:4222"
    output = cluster.run(command, place, PYSPARK_PYTHON=cluster.bare)
    assert "import: jetarrow cannot be imported from a zip file" in output, output[-4000:]
    assert "install the wheel, or ship an environment that contains it (--archives)" in output
    assert re.search(r"format: .*\[DATA_SOURCE_NOT_FOUND\]", output), re.findall("format: .*", output)
    assert "rows:" not in output


@pytest.mark.slow
def test_python_in_spark_settings_does_not_apply_to_the_format(cluster: Cluster, place: Path) -> None:
    python = make_environment(place / "environment", cluster.wheel)
    submit = "spark-submit --master spark://master:7077"
    output = cluster.run(f"{submit} --conf spark.pyspark.python={python} read.py nats://nats:4222", place)
    assert re.search(r"format: .*\[DATA_SOURCE_NOT_FOUND\]", output), re.findall("format: .*", output)
    assert (str(place / "environment"), "driver") in cluster.starts()
    assert "rows:" not in output
