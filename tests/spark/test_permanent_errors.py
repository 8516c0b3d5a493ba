"""Errors that a retry cannot resolve: the task is not retried, and the driver raises the error."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import jetarrow
import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.errors import BadHeaderError, BadSubjectError, MaxPayloadError, TimeoutError
from jetarrow.js.errors import APIError, BatchError, NoStreamResponseError, PublishUnconfirmedError
from jetarrow.server import NatsServer
from jetarrow.spark.sink import failures
from jetarrow.spark.sink.failures import TaskFailure, failure_after, failure_of, raise_failures
from jetarrow.spark.sink.progress_file import note_failure, read_failure, remove_failure
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from .tools import Streams

if TYPE_CHECKING:
    from .tools import Stored

    Read = Callable[..., list[Stored]]
    Write = Callable[..., None]


def caused(cause: Exception) -> BatchError:
    try:
        raise BatchError("jetstream: 1 row could not be stored", row=3) from cause
    except BatchError as error:
        return error


def api_error(code: int, err_code: int) -> APIError:
    return APIError(code=code, err_code=err_code, description="x")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("jetstream: could not publish row 3: header 'Nats-Msg-Id' is reserved"),
        BadHeaderError("a b", message="invalid header"),
        caused(MaxPayloadError("too large")),
        caused(BadSubjectError("invalid subject")),
        caused(api_error(400, 10054)),
        caused(caused(api_error(400, 10060))),
        BatchError("x", code=400, err_code=10199),
    ],
)
def test_error_of_a_row_is_permanent(error: Exception) -> None:
    found = failure_of(error, None, partition=2, run="r")
    assert found is not None
    assert (found.kind, found.partition) == (type(error).__name__, 2)
    assert str(found.error()).removeprefix("nats: ") == (
        str(error).removeprefix("nats: ") if found.kind != "BadHeaderError" else "jetstream: invalid header"
    )


@pytest.mark.parametrize(
    "error",
    [
        ValueError("invalid literal for int() with base 10: 'x'"),
        pa.ArrowInvalid("jetstream: of Arrow"),
        RuntimeError("jetstream: of Spark"),
        TimeoutError("no ack"),
        caused(TimeoutError("no ack")),
        caused(PublishUnconfirmedError("no ack")),
        # A full stream, which a consumer may empty; an account without space; an id that is in process.
        caused(api_error(503, 10077)),
        caused(api_error(400, 10002)),
        caused(api_error(409, 10158)),
        # A stream without a leader looks the same, and here the API cannot be asked.
        caused(NoStreamResponseError('no stream has the subject "a"')),
    ],
)
def test_other_errors_are_retried(error: Exception) -> None:
    assert failure_of(error, None, partition=0, run="r") is None


@pytest.mark.parametrize(
    ("subject", "permanent"), [("unrouted.subject", True), ("{stream}.a", False), ("{stream}…", False)]
)
def test_missing_responder_is_permanent_if_no_stream_has_the_subject(
    streams: Streams, subject: str, permanent: bool
) -> None:
    subject = subject.format(stream=streams.new())
    error = caused(NoStreamResponseError(f'no stream has the subject "{subject}" (status 503); create one'))
    with jetarrow.sync.connect(streams.url) as client:
        assert (failure_of(error, client.jetstream(), partition=0, run="r") is not None) == permanent
    # Closed: no response is no proof.
    assert failure_of(error, client.jetstream(), partition=0, run="r") is None


def test_first_failure_is_raised_with_the_number_of_failed_tasks() -> None:
    first, second = (
        TaskFailure("BatchError", "jetstream: first", 1, "r", 7),
        TaskFailure("ValueError", "jetstream: b", 2, "r"),
    )
    skipped = failure_after(second, partition=0)
    raise_failures([], 3)
    with pytest.raises(ValueError, match=r"^jetstream: b$"):
        raise_failures([skipped, second], 3)
    with pytest.raises(BatchError, match="jetstream: first; 2 of 9 tasks failed") as caught:
        raise_failures([skipped, first, second], 9)
    assert caught.value.row == 7
    # The message of the failed task may be lost with its executor.
    with pytest.raises(ValueError, match=r"^jetstream: b$"):
        raise_failures([skipped], 3)


def test_task_far_behind_a_failed_one_raises_its_error() -> None:
    failed = TaskFailure("ValueError", "jetstream: x", 5, "r")
    assert failure_after(failed, partition=5 + failures._MAX_SKIPPED).skipped
    with pytest.raises(ValueError, match="jetstream: x; this task has written nothing, because the write has failed"):
        failure_after(failed, partition=6 + failures._MAX_SKIPPED)


def test_failure_is_read_by_other_processes_of_the_machine() -> None:
    run = uuid4().hex
    failure = TaskFailure("BatchError", "jetstream: x", 5, run, 6)
    assert read_failure(run) is None
    note_failure(failure)
    assert read_failure(run) == failure
    remove_failure(run)
    assert read_failure(run) is None


class Counted:
    """Counts the attempts of the tasks of a write in files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def through(self, frame: DataFrame) -> DataFrame:
        folder = str(self.folder)

        def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            with open(f"{folder}/attempts", "a") as file:
                file.write(f"{context.partitionId()}.{context.attemptNumber()}\n")
            yield from batches

        return frame.mapInArrow(pass_on, frame.schema)

    @property
    def attempts(self) -> list[str]:
        return sorted((self.folder / "attempts").read_text().split())


CASES: list[tuple[dict[str, str], str]] = [
    ({"subject": "'unrouted.subject'"}, 'no stream has the subject "unrouted.subject"'),
    ({"data": "if(id = 7, null, 'x')"}, "row 7 of partition 0: the payload is null"),
    ({"data": "if(id = 7, repeat('x', 2000000), 'x')"}, "row 7 .* the server accepts at most 1048576"),
    ({"data": "if(id = 7, repeat('x', 20000), 'x')"}, "row 7 .*err_code=10054"),
    ({"subject": "if(id = 7, 'a b', '{stream}.a')"}, 'row 7 .*invalid subject "a b"'),
    ({"subject": "if(id = 7, '{other}.a', '{stream}.a')"}, "row 7 .*err_code=10060"),
    ({"headers": "if(id = 7, map('Nats-Msg-Id', '1'), null)"}, "row 7: header 'Nats-Msg-Id' is reserved"),
    ({"headers": "if(id = 7, map('a b', '1'), null)"}, 'invalid header "a b"'),
    ({"msg_id": "if(id < 2, 'a', null)"}, "row 1 of partition 0: it has the msg_id 'a' of another row"),
]


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(
    ("columns", "said"),
    # One that the client finds, one of a stream, one of the subject; the others are among the slow tests.
    [pytest.param(*case, marks=() if case in (CASES[0], CASES[1], CASES[5]) else pytest.mark.slow) for case in CASES],
)
def test_permanent_error_is_not_retried(
    spark: SparkSession, streams: Streams, write: Write, tmp_path: Path, columns: dict[str, str], said: str
) -> None:
    name, other = streams.new(max_msg_size=10_000), streams.new()
    given = {"data": "'x'", "subject": "'{stream}.a'"} | columns
    frame = spark.range(0, 10, 1, 1).selectExpr(
        *(f"{text.format(stream=name, other=other)} as {column}" for column, text in given.items())
    )
    counted = Counted(tmp_path)
    with pytest.raises(PySparkException, match=said) as error:
        write(counted.through(frame), name)
    assert "Traceback" not in str(error.value)
    assert counted.attempts == ["0.0"]


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_rows_of_other_tasks_are_stored_and_all_failures_are_counted(
    spark: SparkSession, streams: Streams, write: Write, tmp_path: Path
) -> None:
    name = streams.new()
    frame = spark.range(0, 40, 1, 2).selectExpr("if(id % 20 = 19, null, 'x') as data", f"'{name}.a' as subject")
    counted = Counted(tmp_path)
    with pytest.raises(PySparkException, match=r"row 19 of partition [01]: the payload is null"):
        write(counted.through(frame), name)
    # A task that begins after the other one has failed is not run.
    assert counted.attempts in (["0.0"], ["1.0"], ["0.0", "1.0"])
    assert streams.messages(name) in (19, 38)


@pytest.mark.needs_spark("4.1", "writeStream.format('jetstream')")
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_query_with_a_permanent_error_does_not_commit_its_batch(
    spark: SparkSession, streams: Streams, stored: Read, tmp_path: Path
) -> None:
    source, name = streams.new(), streams.new()
    streams.publish(source, [b"%d" % number for number in range(10)])
    counted, checkpoint = Counted(tmp_path), tmp_path / "checkpoint"

    def run(data: str) -> None:
        given = {"servers": streams.url, "stream": source, "startingOffsets": "earliest"}
        frame = spark.readStream.format("jetstream").options(**given).load().selectExpr(f"{data} as data")
        target = {"servers": streams.url, "stream": name, "subject": f"{name}.a"}
        writer = counted.through(frame).writeStream.format("jetstream").options(**target)
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination(120)

    with pytest.raises(StreamingQueryException, match="row 7 of partition 0: the payload is null"):
        run("if(seq = 8, null, data)")
    assert counted.attempts == ["0.0"]
    assert [file for file in (checkpoint / "commits").glob("*") if file.name.isdigit()] == []
    run("data")
    assert sorted(int(message.data) for message in stored(name)) == list(range(10))
    assert [file.name for file in (checkpoint / "commits").glob("*") if file.name.isdigit()] == ["0"]


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_transient_error_is_retried(spark: SparkSession, streams: Streams, write: Write, tmp_path: Path) -> None:
    name = streams.new(max_msgs=5, discard="new")
    counted = Counted(tmp_path)
    frame = spark.range(0, 10, 1, 1).selectExpr("'x' as data", f"'{name}.a' as subject")
    with pytest.raises(PySparkException, match="err_code=10077"):
        write(counted.through(frame), name)
    assert counted.attempts == ["0.0", "0.1"]


OLDER = """
import sys
from pyspark.sql import SparkSession

servers, folder = sys.argv[1:]
builder = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
for name in ("host", "bindAddress"):
    builder = builder.config(f"spark.driver.{name}", "127.0.0.1")
spark = builder.getOrCreate()
options = {"servers": servers, "stream": "EVENTS", "subject": "events.a"}


def counted(batches):
    from pyspark import TaskContext

    with open(folder + "/attempts", "a") as file:
        file.write(f"{TaskContext.get().attemptNumber()} ")
    yield from batches


rows = spark.range(0, 10, 1, 1).selectExpr("if(id = 7, null, 'x') as data").mapInArrow(counted, "data string")
try:
    rows.write.format("jetstream").mode("append").options(**options).save()
except Exception as error:
    print(str(error).replace("\\n", " "))
"""


@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(300)  # two starts of a JVM on a busy machine
@pytest.mark.parametrize("version", ["4.0", "4.1"])
@pytest.mark.slow
def test_permanent_error_is_not_retried_in_older_versions(own_server: NatsServer, tmp_path: Path, version: str) -> None:
    root = Path(__file__).parents[2]
    python = root / f".venv-spark{version.replace('.', '')}" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no environment with Spark {version}")
    Streams(own_server.url).create("EVENTS", subjects=["events.>"])
    # Only our packages: the folder in which they are installed also contains another Spark.
    alone = tmp_path / "alone"
    alone.mkdir()
    for package in ("jetarrow", "pyspark_jetarrow"):
        (alone / package).symlink_to(Path(jetarrow.__file__).parents[1] / package)
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"} | {
        "PYTHONPATH": str(alone),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [str(python), "-c", OLDER, own_server.url, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "row 7 of partition 0: the payload is null" in done.stdout
    assert (tmp_path / "attempts").read_text().split() == ["0"]
