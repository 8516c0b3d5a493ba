"""The programs of this repository have the expected findings."""

from __future__ import annotations

from pathlib import Path

from jetarrow.migrate import Kind, check

from tests.migrate.tools import ROOT

SCRIPTS = ROOT / "tests" / "compat" / "scripts"
CONNECT = ["connect-attempts", "ping-interval"]
# Lines of the scripts of tests/compat, which are written for nats-py with jetarrow's imports.
SCRIPT_FINDINGS = {
    "context.py": [(82, ["max-ack-pending"]), (103, ["bind-order"]), (167, CONNECT)],
    "essay.py": [(48, ["max-ack-pending"]), (126, CONNECT)],
    "publisher.py": [(27, CONNECT)],
    "replier.py": [(26, CONNECT)],
    "requester.py": [(24, CONNECT)],
    "stream.py": [(14, CONNECT), (28, ["duration"])],
    "subscriber.py": [(30, CONNECT)],
    "worker.py": [(32, CONNECT)],
}


def test_scripts_on_nats_py_have_the_expected_findings(tmp_path: Path) -> None:
    for name in SCRIPT_FINDINGS:
        (tmp_path / name).write_text((SCRIPTS / name).read_text("utf-8").replace("jetarrow", "nats"), "utf-8")
    report = check([str(tmp_path)])
    found = {
        name: [(one.line, one.rule) for one in report.findings if one.path.endswith(name) and one.kind != Kind.IMPORT]
        for name in SCRIPT_FINDINGS
    }
    assert found == {
        name: [(line, rule) for line, rules in rows for rule in rules] for name, rows in SCRIPT_FINDINGS.items()
    }
    lines = {
        (Path(one.path).name, one.line, one.remedy.removeprefix("write `").rstrip("`"))
        for one in report.findings
        if one.kind == Kind.IMPORT
    }
    wanted = {
        (name, number, line)
        for name in SCRIPT_FINDINGS
        for number, line in enumerate((SCRIPTS / name).read_text("utf-8").splitlines(), 1)
        if line.startswith(("import jetarrow", "from jetarrow"))
    }
    assert lines == wanted


def test_scripts_on_jetarrow_have_no_findings() -> None:
    report = check([str(SCRIPTS), str(ROOT / "examples")])
    assert report.findings == ()
    assert report.files > len(SCRIPT_FINDINGS)


def test_applications_of_frameworks_begin_with_as_nats() -> None:
    apps = str(ROOT / "tests" / "compat" / "apps")
    rules = [(Path(one.path).name, one.rule) for one in check([apps]).findings]
    assert rules == [("faststream_app.py", "framework"), *[("faststream_app.py", "import")] * 2] + [
        ("taskiq_app.py", rule) for rule in ("import", "import", "framework", "framework", "framework")
    ]
    assert check([apps], as_nats=True).findings == ()


def test_the_counterparts_of_the_benchmarks_have_findings_of_nats_py_alone() -> None:
    findings = check([str(ROOT / "benches")]).findings
    assert {one.rule for one in findings} == {"import", "async-pending", *CONNECT}
    for one in findings:
        line = Path(one.path).read_text("utf-8").splitlines()[one.line - 1]
        assert "nats" in line or "nc.jetstream()" in line


def test_jetarrow_itself_has_findings_only_where_the_demo_compares_with_nats_py() -> None:
    report = check([str(ROOT / "python")])
    assert {Path(one.path).name for one in report.findings} == {"flights.py"}
    assert [one.rule for one in report.findings] == ["import", "ping-interval", "async-pending", "max-ack-pending"]
    assert report.files > 400
