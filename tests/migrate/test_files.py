"""Files and folders: which are read, files that are no Python, places in lines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from jetarrow.migrate import Finding, Kind, check

LINE = "import nats\n"


def write(path: Path, text: str | bytes = LINE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def one_of(path: Path) -> Finding:
    (finding,) = check([str(path)]).findings
    return finding


def test_a_folder_is_read_with_its_subfolders_without_those_of_others(tmp_path: Path) -> None:
    read = ["a.py", "b.pyw", "sub/deep/c.py", "venv_like/d.py"]
    for name in [*read, ".venv/e.py", "sub/.git/f.py", "node_modules/g.py", "sub/__pycache__/h.py", "i.txt", "j"]:
        write(tmp_path / name)
    report = check([str(tmp_path)])
    assert [os.path.relpath(one.path, tmp_path) for one in report.findings] == [str(Path(name)) for name in read]
    assert (report.files, report.as_nats) == (4, None)


def test_a_file_of_any_name_is_read_and_only_once(tmp_path: Path) -> None:
    script = write(tmp_path / "script")
    report = check([str(script), str(script), str(tmp_path)])
    assert (len(report.findings), report.files) == (1, 1)
    assert one_of(script).path == str(script)


def test_a_path_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nix"):
        check([str(tmp_path), str(tmp_path / "nix")])


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (b"import nats\nx = = 1\n", 2, "invalid syntax"),
        (b"import nats\ndef a(:\n", 2, ""),
        (b"import nats\nx = '\xff'\n", None, "utf-8"),
        (b"# coding: none-such\nimport nats\n", None, "none-such"),
        (b"import nats\nx = 1\x00\n", None, "null"),
        (b"import nats\nx = " + b"(" * 5000 + b")" * 5000, None, ""),
        (b"import nats\nx = a" + b".a" * 50_000, None, "recursion"),
        (b"print 'python 2'\n", 1, "print"),
    ],
)
def test_a_file_that_is_no_python_is_a_finding(data: bytes, line: int | None, reason: str, tmp_path: Path) -> None:
    write(tmp_path / "good.py")
    bad = write(tmp_path / "bad.py", data)
    first, second = check([str(tmp_path)]).findings
    assert (first.path, first.kind, first.rule, first.anchor) == (str(bad), Kind.UNREADABLE, "unreadable", "checklist")
    assert first.line == line or (line is None and first.line >= 1)
    assert first.column >= 1
    assert reason in first.what
    assert "\n" not in str(first)
    assert second.rule == "import"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root reads every file")
def test_a_file_without_permission_is_a_finding(tmp_path: Path) -> None:
    path = write(tmp_path / "a.py")
    path.chmod(0)
    assert "Permission denied" in one_of(path).what


def test_a_broken_link_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "a.py").symlink_to(tmp_path / "nix")
    assert "No such file" in one_of(tmp_path).what


@pytest.mark.parametrize("data", [b"\xef\xbb\xbfimport nats\r\n", b"# coding: latin-1\n'\xe4'; import nats\n"])
def test_encodings_are_those_that_the_file_declares(data: bytes, tmp_path: Path) -> None:
    found = one_of(write(tmp_path / "a.py", data))
    assert (
        found.rule,
        data.splitlines()[found.line - 1].decode("latin-1").lstrip("\xef\xbb\xbf")[found.column - 1 :],
    ) == (
        "import",
        "nats",
    )


def test_columns_are_characters(tmp_path: Path) -> None:
    found = one_of(write(tmp_path / "a.py", "x = 'äöü€'; import os, nats\n"))
    assert (found.line, found.column) == (1, len("x = 'äöü€'; import os, ") + 1)


def test_a_form_feed_and_an_unusual_line_break_do_not_move_lines(tmp_path: Path) -> None:
    found = one_of(write(tmp_path / "a.py", "x = '\x0c\x85\u2028'\n\x0c\nimport nats\n"))
    assert (found.line, found.column) == (3, 8)


def test_the_program_is_not_imported(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    path = write(tmp_path / "a.py", f"open({str(trace)!r}, 'w')\nraise SystemExit(3)\nimport nats\n")
    assert one_of(path).line == 3
    assert not trace.exists()


def test_a_module_of_the_program_itself_is_not_nats_py(tmp_path: Path) -> None:
    write(tmp_path / "own" / "nats.py", "")
    write(tmp_path / "own" / "a.py")
    write(tmp_path / "package" / "__init__.py", "")
    write(tmp_path / "package" / "nats.py", "")
    inner = write(tmp_path / "package" / "a.py")
    # In a package, `import nats` is absolute: its sibling is `package.nats`.
    assert [one.path for one in check([str(tmp_path)]).findings] == [str(inner)]


def test_as_nats_in_one_file_is_that_of_the_program(tmp_path: Path) -> None:
    main = write(tmp_path / "main.py", "import jetarrow.as_nats\nimport service\n")
    write(tmp_path / "a.py", "import nats\nfrom faststream.nats import X\nnc: nats.NATS\nnc.pending_data_size\n")
    report = check([str(tmp_path)])
    assert report.as_nats == str(main)
    assert [one.rule for one in report.findings] == ["pending-data-size"]
    assert [one.rule for one in check([str(tmp_path / "a.py")], as_nats=True).findings] == ["pending-data-size"]
    assert len(check([str(tmp_path / "a.py")]).findings) == 3


def test_a_finding_is_one_line_and_a_mapping(tmp_path: Path) -> None:
    found = one_of(write(tmp_path / "a.py"))
    assert str(found) == (f"{tmp_path}/a.py:1:8: imports nats; write `import jetarrow as nats` (MIGRATION.md#imports)")
    assert found.as_dict() == {
        "path": f"{tmp_path}/a.py",
        "line": 1,
        "column": 8,
        "kind": "import",
        "rule": "import",
        "what": "imports nats",
        "remedy": "write `import jetarrow as nats`",
        "anchor": "imports",
    }
