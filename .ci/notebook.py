"""Writes the notebook's outputs for git: printed text and plots, without details of the machine.

python .ci/notebook.py    # runs examples/flights.ipynb and writes them
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

NOTEBOOK = Path(__file__).resolve().parents[1] / "examples" / "flights.ipynb"


def run(path: Path = NOTEBOOK) -> Any:
    """Return the notebook with the outputs of a run in a temporary folder; the kernel opens no TCP port.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell failed.
    """
    notebook = nbformat.read(path, as_version=4)
    before = {name: os.environ.get(name) for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    with tempfile.TemporaryDirectory(prefix="nb-") as folder:
        os.environ.update(dict.fromkeys(before, folder))
        try:
            client = NotebookClient(
                notebook,
                timeout=120,
                kernel_name="python3",
                resources={"metadata": {"path": folder}},
                config=Config({"KernelManager": {"transport": "ipc", "ip": f"{folder}/kernel"}}),
            )
            client.execute()
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
    return cleaned(notebook)


def cleaned(notebook: Any) -> Any:
    """Remove content that differs between two runs: times, and Spark's log lines about the machine."""
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


def texts(notebook: Any) -> list[str]:
    """Return the outputs of the cells as text; the text of a picture contains its size in pixels."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output["text"] if "text" in output else output["data"]["text/plain"] for output in outputs]


if __name__ == "__main__":
    nbformat.write(run(), NOTEBOOK)
