"""`pyspark_jetarrow`, through which Spark finds the format: it never breaks another source, nor hides why."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark_jetarrow
import pytest
from jetarrow.spark.datasource import JetStreamSource

# Spark's own look-up of sources, in the process where it happens; what it finds is used in another one.
LOOK_UP = """
import io, sys
from pyspark.serializers import read_int
from pyspark.sql.datasource import DataSource
from pyspark.sql.worker import lookup_data_sources
from pyspark.worker_util import pickleSer, utf8_deserializer
out = io.BytesIO()
lookup_data_sources._main(None, out)
out.seek(0)
found = {}
for _ in range(read_int(out)):
    name = utf8_deserializer.loads(out)
    found[name] = pickleSer._read_with_length(out)
source = found["jetstream"]
assert issubclass(source, DataSource), source
try:
    source(options={})
except ImportError as error:
    print(error)
"""


HOME = Path(pyspark_jetarrow.__file__).parent.parent


def run(code: str, *flags: str, first: Path = HOME) -> str:
    """Run code in a new Python that looks for modules in `first` before anything else."""
    env = {"PYTHONPATH": os.pathsep.join([str(first), str(HOME)])}
    done = subprocess.run(
        [sys.executable, *flags, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_source_is_jetarrows_own() -> None:
    assert pyspark_jetarrow.DefaultSource is JetStreamSource


@pytest.mark.needs_spark("4.3", "the look-up without a socket")
def test_sound_installation_is_found() -> None:
    assert run(LOOK_UP) == ""


def test_importing_needs_nothing() -> None:
    code = f"import sys; sys.path.insert(0, {str(HOME)!r}); import pyspark_jetarrow; print(*sys.modules)"
    loaded = run(code, "-I", "-S").split()
    assert "pyspark_jetarrow" in loaded
    assert not {"jetarrow", "pyspark", "pyarrow"} & set(loaded)


@pytest.mark.needs_spark("4.3", "the look-up without a socket")
def test_broken_jetarrow_shows_its_cause(tmp_path: Path) -> None:
    broken = tmp_path / "jetarrow"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ImportError('libsomething.so.1: cannot open shared object file')")
    said = run(LOOK_UP, first=tmp_path)
    assert f"jetarrow cannot be imported by {sys.executable}: ImportError: libsomething.so.1: cannot open" in said


@pytest.mark.needs_spark("4.3", "the look-up without a socket")
def test_panic_in_the_native_module_shows_its_cause(tmp_path: Path) -> None:
    broken = tmp_path / "jetarrow"
    broken.mkdir()
    code = "class PanicException(BaseException): pass\nraise PanicException('index out of bounds')"
    (broken / "__init__.py").write_text(code)
    assert "PanicException: index out of bounds" in run(LOOK_UP, first=tmp_path)


def test_a_wheel_in_py_files_says_that_it_cannot_be(tmp_path: Path) -> None:
    """Python imports out of a zip, but not what is native."""
    with zipfile.ZipFile(tmp_path / "jetarrow.whl", "w") as wheel:
        for file in (HOME / "jetarrow").rglob("*.py"):
            wheel.write(file, file.relative_to(HOME))
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'jetarrow.whl')!r}); import jetarrow"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: jetarrow cannot be imported from a zip file" in done.stderr
