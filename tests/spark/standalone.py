"""A standalone Spark as it runs on several machines: a master and workers as processes, drivers by spark-submit."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark

from .tools import free_ports, wait_until

SPARK_HOME = Path(pyspark.__file__).parent
# Seconds: JVMs start on a busy machine.
PATIENCE = 300.0
Process = subprocess.Popen[bytes]


def spark_environment(folder: Path, python: str | Path | None) -> dict[str, str]:
    """The environment of a daemon or a driver.

    Args:
        folder: Takes the files of Spark.
        python: `PYSPARK_PYTHON`, or None for a machine on which it is not set.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    spark = {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(folder)}
    return inherited | spark | ({} if python is None else {"PYSPARK_PYTHON": str(python)})


def start(command: list[str | Path], *, log: Path, environment: Mapping[str, str], cwd: Path | None = None) -> Process:
    """A process group of its own, which `kill` ends; everything that it prints is in `log`."""
    with log.open("wb") as out:
        return subprocess.Popen(
            list(map(str, command)), stdout=out, stderr=out, env=environment, cwd=cwd, start_new_session=True
        )


def spawn(name: str, *arguments: str, log: Path, environment: Mapping[str, str]) -> Process:
    """One of Spark's own daemons, from pyspark's scripts."""
    command: list[str | Path] = [SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *arguments]
    return start(command, log=log, environment={**environment, "SPARK_DAEMON_MEMORY": "256m"})


def wait_for_line(text: str, log: Path) -> None:
    def logged() -> str:
        return log.read_text(errors="replace") if log.exists() else ""

    try:
        wait_until(lambda: text in logged(), patience=PATIENCE)
    except AssertionError:
        raise AssertionError(f"no {text!r} in:\n{logged()[-3000:]}") from None


def kill(process: Process) -> None:
    """Ends a process and its children with SIGKILL; a worker's executor is one of them, as is the JVM of a driver."""
    # The group of a process that has been waited for may be another one by now.
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def standalone(folder: Path, *, python: str | Path | None) -> Iterator[tuple[str, list[Process]]]:
    """A master and two workers of one core: the master's address, and the processes of the workers.

    Args:
        folder: Takes logs and working directories: those of the executors are in `work0` and `work1`.
        python: `PYSPARK_PYTHON` of the workers, or None.
    """
    [port] = free_ports(1)
    master = f"spark://127.0.0.1:{port}"
    environment = spark_environment(folder, python)
    started = []
    try:
        log = folder / "master.log"
        options = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        started.append(spawn("master.Master", *options, log=log, environment=environment))
        wait_for_line("I have been elected leader", log)
        for number in range(2):
            log = folder / f"worker{number}.log"
            options = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            options += ["--work-dir", str(folder / f"work{number}"), master]
            started.append(spawn("worker.Worker", *options, log=log, environment=environment))
        for number in range(2):
            wait_for_line("Successfully registered with master", folder / f"worker{number}.log")
        yield master, started[1:]
    finally:
        for process in started:
            kill(process)


def submit(*arguments: str | Path, master: str, log: Path, environment: Mapping[str, str], cwd: Path) -> Process:
    """A driver on this machine (client mode) whose executors have one core each."""
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
    }
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    command = [SPARK_HOME / "bin" / "spark-submit", "--master", master, *options, *arguments]
    return start(command, log=log, environment=environment, cwd=cwd)
