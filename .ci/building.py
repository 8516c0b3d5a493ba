"""Builds the native module and shows its progress: compiled crates of all, and the time.

python .ci/building.py LOG COMMAND [ARGUMENT ...]

The output of the command goes to LOG, and is shown if the command fails. Needs Python 3.11 alone, as it runs before
anything is installed.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TextIO

# Seconds between two lines, where no terminal can show one line that changes.
_INTERVAL = 15.0


def crates() -> int:
    """Number of crates that a build compiles if none is built; 0 if cargo fails."""
    command = ["cargo", "tree", "--locked", "--edges", "normal,build", "--prefix", "none", "--format", "{p}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return len({line.removesuffix(" (*)") for line in done.stdout.splitlines() if line})


def shown(seconds: float) -> str:
    """Format a duration."""
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


class Progress:
    """Counts compiled crates, and shows the count.

    Args:
        out: Stream of the output.
        total: Number of crates of a whole build, 0 if unknown.
    """

    def __init__(self, out: TextIO, total: int) -> None:
        self.compiled = 0
        self._out, self._total = out, total
        self._begun = time.monotonic()
        self._is_terminal = out.isatty()
        self._ended = threading.Event()
        self._shower = threading.Thread(target=self._show, daemon=True)
        self._shower.start()

    def take(self, line: str) -> None:
        """Notes a line of cargo."""
        self.compiled += line.lstrip().startswith("Compiling ")

    def end(self, code: int) -> None:
        """Shows the result."""
        self._ended.set()
        self._shower.join()
        self._clear()
        took = shown(time.monotonic() - self._begun)
        if code:
            self._say(f"the build failed after {took}")
        elif self.compiled:
            self._say(f"built the native module in {took}: {self.compiled} crates")

    def _show(self) -> None:
        while not self._ended.wait(1.0 if self._is_terminal else _INTERVAL):
            of = f" of at most {self._total}" if self._total >= self.compiled else ""
            took = shown(time.monotonic() - self._begun)
            text = f"building the native module: crate {self.compiled}{of}, {took}"
            if self._is_terminal:
                self._clear()
                self._out.write(text)
                self._out.flush()
            else:
                self._say(text)

    def _clear(self) -> None:
        if self._is_terminal:
            self._out.write("\r\x1b[K")

    def _say(self, text: str) -> None:
        self._out.write(f"{text}\n")
        self._out.flush()


def build(log: Path, command: list[str], out: TextIO) -> int:
    """Runs the command.

    Returns:
        Its exit code.
    """
    progress = Progress(out, crates())
    with (
        log.open("w", encoding="utf-8") as kept,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            kept.write(line)
            progress.take(line)
    progress.end(process.returncode)
    if process.returncode:
        out.write(log.read_text("utf-8"))
    return process.returncode


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1]), sys.argv[2:], sys.stderr))
