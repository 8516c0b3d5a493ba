"""Packages that the native module links, and their licences: checks that each is allowed, and writes THIRD-PARTY.txt.

python .ci/third_party.py            # fails if a licence is not in deny.toml
python .ci/third_party.py --write    # writes THIRD-PARTY.txt, which goes into every wheel
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Preferred licences for crates that offer a choice: first the licence of this project, then the shortest.
PREFERRED = ["Apache-2.0", "MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "Zlib", "Unicode-3.0", "CC0-1.0"]
TEXTS = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|UNLICENSE|COPYRIGHT)", re.IGNORECASE)


def linked(target: str) -> list[dict[str, Any]]:
    """Return the packages whose code is in the module, sorted, without build scripts, macros and test dependencies."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--filter-platform", target]
    found = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    packages = {package["id"]: package for package in found["packages"]}
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    own = set(found["workspace_members"])
    seen, left = set(own), sorted(own)
    while left:
        for dependency in nodes[left.pop()]["deps"]:
            name = dependency["pkg"]
            macro = any("proc-macro" in made["kind"] for made in packages[name]["targets"])
            if name not in seen and not macro and any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                seen.add(name)
                left.append(name)
    return sorted((packages[name] for name in seen - own), key=lambda one: (one["name"], one["version"]))


def taken(expression: str, allowed: set[str]) -> list[str]:
    """Return the licences under which a crate is used: the preferred one of each choice.

    Raises:
        ValueError: All licences of a choice are missing in deny.toml.
    """
    # Both ways of writing a choice; no crate here nests deeper than one pair of brackets.
    parts = re.split(r"\s+AND\s+(?![^(]*\))", expression.replace("/", " OR "))
    found = []
    for part in parts:
        choice = re.split(r"\s+OR\s+", part.strip("() "))
        fitting = [one for one in choice if one in allowed]
        if not fitting:
            raise ValueError(f"{part} is not in deny.toml")
        found.append(min(fitting, key=lambda one: PREFERRED.index(one) if one in PREFERRED else len(PREFERRED)))
    return sorted(set(found))


def texts(package: dict[str, Any], licences: list[str]) -> list[str]:
    """Return a crate's licence texts and notices. The text of Apache-2.0 is left out, because LICENSE contains it."""
    folder = Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.is_file() and TEXTS.match(path.name))
    found = []
    for path in files:
        name = path.name.upper()
        apache = "APACHE" in name or "Apache License" in path.read_text("utf-8", "replace")[:400]
        if name.startswith("NOTICE") or (licences != ["Apache-2.0"] and not apache):
            found.append(path.read_text("utf-8", "replace").strip())
    return found


def document(packages: list[dict[str, Any]], allowed: set[str]) -> str:
    """Return the content of THIRD-PARTY.txt: a list of all crates, then each text once."""
    lines = [
        "The native module of jetarrow links these packages. Where one leaves the choice, the licence named is the one",
        "taken. The text of Apache-2.0 is in LICENSE; the others' texts, and all notices, follow the list.",
        "",
    ]
    whose: dict[str, list[str]] = {}
    for package in packages:
        licences = taken(package["license"] or "", allowed)
        lines.append(f"{package['name']} {package['version']}: {' and '.join(licences)}")
        for text in texts(package, licences):
            whose.setdefault(text, []).append(package["name"])
    for text, names in whose.items():
        lines += ["", "-" * 100, ", ".join(sorted(set(names))), "", text]
    return "\n".join(line.rstrip() for line in "\n".join(lines).splitlines()) + "\n"


def host() -> str:
    """Return the target triple of this machine."""
    said = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^host: (.*)$", said, re.MULTILINE)[0]


def main() -> int:
    """Check the licences, and write the file if `--write` is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", help="a platform of Rust; default this machine's")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    allowed = set(tomllib.loads((ROOT / "deny.toml").read_text("utf-8"))["licenses"]["allow"])
    packages = linked(given.target or host())
    wrong = []
    for package in packages:
        try:
            taken(package["license"] or "no licence", allowed)
        except ValueError as error:
            wrong.append(f"{package['name']} {package['version']}: {error}")
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        return 1
    if given.write:
        (ROOT / "THIRD-PARTY.txt").write_text(document(packages, allowed), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
