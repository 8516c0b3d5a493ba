"""`examples/flights.ipynb` runs, and prints its stored output."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "flights.ipynb"


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(300)
@pytest.mark.slow
def test_notebook_prints_its_stored_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a kernel of its own. Update the stored output with `.ci/notebook.py`."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    tools = runpy.run_path(str(ROOT / ".ci" / "notebook.py"))
    stored = nbformat.read(NOTEBOOK, as_version=4)
    ran = tools["run"](NOTEBOOK)
    assert tools["texts"](ran) == tools["texts"](stored)
    assert len(tools["texts"](stored)) == 10


def test_stored_notebook_has_pictures_and_no_machine_paths() -> None:
    """It is small, has pictures, and contains nothing of the machine that ran it."""
    text = NOTEBOOK.read_text("utf-8")
    assert len(text) < 200_000
    assert text.count('"image/png"') == 3
    for word in ("stderr", "Traceback", str(ROOT), str(Path.home()), sys.prefix, "nats://"):
        assert word not in text, word
