"""Nothing of the machine that built it is in a wheel: its bill of materials is rewritten, the rest is looked through.

python .ci/wheel.py dist/jetarrow-*.whl
"""

from __future__ import annotations

import base64
import hashlib
import os
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CARGO = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")


def clean(wheel: Path, root: Path = ROOT, cargo: Path = CARGO) -> list[str]:
    """Takes the paths out of a wheel's bills of materials, in place.

    Returns:
        The other files that name the checkout or cargo's folder.
    """
    with zipfile.ZipFile(wheel) as old:
        files = [(info, old.read(info)) for info in old.infolist()]
    changed: dict[str, bytes] = {}
    for info, content in files:
        if "/sboms/" in info.filename:
            new = content.replace(f"{root}".encode(), b"/jetarrow").replace(f"{cargo}".encode(), b"/cargo")
            if new != content:
                changed[info.filename] = new
    if changed:
        unfinished = wheel.with_suffix(".part")
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as out:
            for info, content in files:
                record = info.filename.endswith(".dist-info/RECORD")
                out.writestr(info, recorded(content, changed) if record else changed.get(info.filename, content))
        unfinished.replace(wheel)
    places = [f"{place}{os.sep}".encode() for place in (root, cargo)]
    return [
        info.filename
        for info, content in files
        if any(place in changed.get(info.filename, content) for place in places)
    ]


def recorded(record: bytes, changed: dict[str, bytes]) -> bytes:
    """A wheel's list of files, with the hashes and sizes of those that were changed."""
    lines = []
    for line in record.decode().splitlines():
        name = line.rsplit(",", 2)[0]
        if name in changed:
            digest = base64.urlsafe_b64encode(hashlib.sha256(changed[name]).digest()).rstrip(b"=").decode()
            line = f"{name},sha256={digest},{len(changed[name])}"
        lines.append(line)
    return ("\n".join(lines) + "\n").encode()


if __name__ == "__main__":
    found = {wheel: clean(Path(wheel)) for wheel in sys.argv[1:]}
    for wheel, files in found.items():
        if files:
            print(f"{wheel}: paths of this machine in {', '.join(files)}", file=sys.stderr)
    sys.exit(any(found.values()))
