"""`payload=json` against `from_json` over 2,000 generated payloads, and the table of differences in the guide."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.server import NatsServer

from .json_features import DOCUMENTS, FEATURES, SCHEMA, VALUES, ZONE, payloads

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "spark.md"
BEGIN, END = "<!-- differences from from_json -->", "<!-- end of the differences -->"
COUNT, SEED = 2_000, 20_260
VERSIONS = ("4.0", "4.1", "4.3")

PROGRAM = f"""
import sys
from pyspark.sql import SparkSession, functions as F

servers, out = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    # A session without a zone has that of the JVM.
    .config("spark.driver.extraJavaOptions", "-Duser.timezone={ZONE}").getOrCreate()
)
ddl = {SCHEMA!r}
source = spark.read.format("jetstream").option("servers", servers).option("stream", "EVENTS")
parsed = F.from_json(F.col("data").cast("string"), ddl + ", _corrupt_record string",
                     {{"columnNameOfCorruptRecord": "_corrupt_record"}})
theirs = source.load().select("seq", parsed.alias("value")).select("seq", "value", "value._corrupt_record")
theirs = theirs.withColumn("value", F.col("value").dropFields("_corrupt_record"))
ours = source.option("payload", "json").option("valueSchema", ddl).load().select("seq", "value", "_corrupt_record")
for rows, name in ((theirs, "theirs"), (ours, "ours")):
    binary = F.when(F.col("value").isNotNull(), F.col("value").withField("x", F.hex("value.x")))
    rows.select("seq", binary.cast("string").alias("value"), F.col("_corrupt_record").isNotNull().alias("corrupt")) \\
        .coalesce(1).write.json(out + "/" + name)
print(spark.version)
spark.stop()
"""


class Outcome(NamedTuple):
    """A decoded row: the value as text, and whether the payload is reported as malformed."""

    value: str | None
    corrupt: bool


def outcomes(folder: Path) -> list[Outcome]:
    rows = [json.loads(line) for file in folder.glob("*.json") for line in file.read_text("utf-8").splitlines()]
    return [Outcome(row.get("value"), row["corrupt"]) for row in sorted(rows, key=lambda row: int(row["seq"]))]


def decoded(version: str, server: NatsServer, folder: Path) -> tuple[list[Outcome], list[Outcome]]:
    """The rows of `from_json` and of the source in this Spark."""
    name = f".venv-spark{version.replace('.', '')}"
    python = Path(sys.executable) if version == "4.3" else ROOT / name / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no environment with Spark {version}: make .stamps/{name.removeprefix('.venv-')}")
    # Only our packages: the folder in which they are installed also contains another Spark.
    alone = folder / "alone"
    alone.mkdir()
    for package in ("jetarrow", "pyspark_jetarrow"):
        (alone / package).symlink_to(Path(jetarrow.__file__).parents[1] / package)
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_HOME"}
    environment |= {"PYTHONPATH": str(alone), "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1"}
    command = [str(python), "-c", PROGRAM, server.url, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.startswith(version)
    return outcomes(folder / "theirs"), outcomes(folder / "ours")


def table(found: dict[str, tuple[bytes, Outcome, Outcome]]) -> str:
    """The table of the guide: one row for each peculiarity that is decoded differently."""
    lines = ["| payload with | example | `from_json` | `payload=json` |", "|---|---|---|---|"]
    for feature in FEATURES:
        if feature in found:
            example, theirs, ours = found[feature]
            lines.append(f"| {feature} | {_code(example)} | {_shown(feature, theirs)} | {_shown(feature, ours)} |")
    return "\n".join(lines)


def _code(payload: bytes) -> str:
    text = payload.decode("utf-8", "backslashreplace")
    return "`" + (text if len(text) <= 48 else text[:40] + "…").replace("|", "\\|").replace("\t", "\\t") + "`"


def _shown(feature: str, outcome: Outcome) -> str:
    value = outcome.value
    # The other fields of an example are missing.
    fields = [] if value is None else [field for field in value[1:-1].split(", ") if field != "null"]
    if value is None:
        text = "null"
    elif not fields:
        text = "all fields null"
    else:
        text = "decoded" if feature in DOCUMENTS else f"`{', '.join(fields)}`"
    return text + (", malformed" if outcome.corrupt else "")


@pytest.mark.xdist_group("spark_processes")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.needs_spark("4.2", "the comparison of versions")
@pytest.mark.slow
def test_the_guide_lists_every_difference(own_server: NatsServer, tmp_path: Path, version: str) -> None:
    given = payloads(COUNT, SEED)
    assert {feature for feature, _ in given} == {"", *FEATURES}
    # Each peculiar member alone as well, as the examples of the guide.
    alone = [(name, b"{" + text.encode("utf-8", "surrogatepass") + b"}") for name in VALUES for text in VALUES[name]]
    given += alone
    with jetarrow.sync.connect(own_server.url) as nc:
        js = nc.jetstream()
        js.add_stream(name="EVENTS", subjects=["events.>"])
        js.publish_batch("events.a", [payload for _, payload in given]).raise_for_errors()
    theirs, ours = decoded(version, own_server, tmp_path)
    assert len(theirs) == len(ours) == len(given)
    seen: dict[str, list[tuple[bytes, Outcome, Outcome]]] = defaultdict(list)
    for (feature, payload), one, other in zip(given, theirs, ours, strict=True):
        if one != other:
            seen[feature].append((payload, one, other))
    assert "" not in seen, [(base64.b64encode(payload), *rest) for payload, *rest in seen[""][:3]]
    written = table({feature: min(rows, key=lambda row: (len(row[0]), row[0])) for feature, rows in seen.items()})
    text = GUIDE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    kept, _, after = rest.partition(END)
    if os.environ.get("JETARROW_WRITE_GUIDE") == version:
        GUIDE.write_text(f"{before}{BEGIN}\n\n{written}\n\n{END}{after}", "utf-8")
    assert kept.strip() == written, f"docs/spark.md has other differences than Spark {version}:\n{written}"
