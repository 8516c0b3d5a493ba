"""File systems whose power can be cut, for tests of durability. This file contains no tests.

The file system of a `Disk` is ext4 on a loop device. A copy of its image has the blocks that the kernel had written
out: those of fsync, and no dirty page. It is the disk of a machine that lost power at that moment.
"""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from pathlib import Path

# Bytes of an image; it is sparse.
_SIZE = 96 << 20


def _run(*command: str | Path) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=60)


class Disk:
    """A mounted file system.

    Args:
        folder: A folder that does not exist yet, for the image and the mount point.
        image: The image to copy; None creates an empty file system.
    """

    def __init__(self, folder: Path, image: Path | None = None) -> None:
        self._folder, self._cuts = folder, 0
        self._image, self.path = folder / "image", folder / "disk"
        self.path.mkdir(parents=True)
        if image is None:
            self._image.touch()
            os.truncate(self._image, _SIZE)
            _run("mkfs.ext4", "-q", self._image)
        else:
            _run("cp", "--sparse=always", image, self._image)
        # The journal is written by fsync only, not every 5 s. Dirty pages stay in memory for 30 s.
        _run("mount", "-o", "loop,commit=300", self._image, self.path)

    def sync(self) -> None:
        """Writes everything to the disk, as the kernel does within a minute."""
        _run("sync", "-f", self.path)

    def cut(self) -> Disk:
        """Returns the disk as it is after a power loss at this moment."""
        self._cuts += 1
        return Disk(self._folder / f"cut{self._cuts}", self._image)

    def close(self) -> None:
        """Unmounts the file system."""
        _run("umount", "-l", self.path)


@functools.cache
def can_cut() -> bool:
    """Whether this process can mount file systems and they lose what was not synced."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            disk = Disk(Path(folder) / "d")
        except (OSError, subprocess.SubprocessError):
            return False
        try:
            with (disk.path / "synced").open("wb") as file:
                file.write(b"x")
                file.flush()
                os.fsync(file.fileno())
            (disk.path / "lost").write_bytes(b"x")
            after = disk.cut()
            try:
                return (after.path / "synced").exists() and not (after.path / "lost").exists()
            finally:
                after.close()
        finally:
            disk.close()
