"""The Python of a cluster's machines: a wheel of jetarrow, environments with or without it, and a packed one."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import jetarrow
import pyarrow

# Environment variable: the file to which each Python of an environment appends its prefix and working directory.
STARTS = "JETARROW_TEST_STARTS"
RECORDER = f"""
import os, sys
with open(os.environ["{STARTS}"], "a") as out:
    out.write(f"{{sys.prefix}}\\t{{os.getcwd()}}\\n")
"""


def make_wheel(folder: Path) -> Path:
    """Packs the jetarrow of the tests, its native module included, as a wheel: nothing is compiled."""
    package = Path(jetarrow.__file__).parent
    tag = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    info = "jetarrow-0.0.1.dist-info"
    wheel = folder / f"jetarrow-0.0.1-{tag}.whl"
    files = {
        str(file.relative_to(package.parent)): file.read_bytes()
        for top in (package, package.with_name("pyspark_jetarrow"))
        for file in top.rglob("*")
        if file.is_file() and file.suffix != ".pyc"
    }
    files[f"{info}/METADATA"] = b"Metadata-Version: 2.1\nName: jetarrow\nVersion: 0.0.1\n"
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    record = [f"{name},sha256={digest(data)},{len(data)}" for name, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return wheel


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def make_environment(folder: Path, wheel: Path | None) -> Path:
    """A virtual environment with pyarrow, and with the wheel if one is given; returns its Python.

    pyarrow, several hundred megabytes, is a link to the one of the tests. pyspark is none of its packages: the daemons
    and drivers find Spark's own.
    """
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    [packages] = folder.glob("lib/python*/site-packages")
    installed = Path(pyarrow.__file__).parent
    (packages / "pyarrow").symlink_to(installed)
    (packages / "sitecustomize.py").write_text(RECORDER)
    if wheel is not None:
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(python)]
        environment = {**os.environ, STARTS: os.devnull}
        install = ["install", "--no-deps", "--no-index", "--no-compile", str(wheel)]
        subprocess.run([*pip, *install], check=True, env=environment, timeout=110)
    return python
