"""The check of files: imports, missing names and documented differences."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from jetarrow.migrate import imports, nats_types
from jetarrow.migrate.finding import Finding, Kind, Report
from jetarrow.migrate.imports import NAMES, Hit
from jetarrow.migrate.inference import Inference, Instance, Ref
from jetarrow.migrate.missing import CONSTRUCTORS, MEMBERS, MISSING, SUCCESSORS
from jetarrow.migrate.rules import RULES, Module
from jetarrow.migrate.sources import parse, python_files, shadows_nats, text_lines

CHECKLIST = "checklist"
_MADE = {".".join(path.split(".")[-2:]): remedy for path, remedy in CONSTRUCTORS.items()}


def check(paths: Iterable[str], *, as_nats: bool = False) -> Report:
    """Find the lines that need attention in files and folders.

    Args:
        paths: Files, and folders whose Python files are read with those of their subfolders.
        as_nats: Whether the program runs with `jetarrow.as_nats`, so that its imports need no change. It is also
            true if one of the files imports it.

    Returns:
        The findings. A file that cannot be read as Python is a finding.

    Raises:
        FileNotFoundError: A path does not exist.
    """
    files = dict.fromkeys(one for path in paths for one in python_files(path))
    parsed: dict[str, tuple[ast.Module, bytes]] = {}
    findings: list[Finding] = []
    first = None
    for path in files:
        try:
            with open(path, "rb") as file:
                data = file.read()
            parsed[path] = parse(data, path), data
        except (OSError, SyntaxError) as error:
            findings.append(_unreadable(path, error))
            continue
        if first is None and imports.imports_of(parsed[path][0]).as_nats:
            first = path
    for path, (tree, data) in parsed.items():
        # The name is in every import, attribute and text that a rule looks at.
        if b"nats" not in data or shadows_nats(path):
            continue
        try:
            findings += _check(tree, data, path, as_nats or first is not None)
        except RecursionError as error:
            findings.append(_unreadable(path, error))
    return Report(tuple(sorted(findings)), len(files), first)


def check_source(data: bytes, path: str = "<source>", *, as_nats: bool = False) -> list[Finding]:
    """Find the lines that need attention in the source of a module.

    Args:
        data: The source.
        path: Its path, for the findings.
        as_nats: As for `check`.

    Raises:
        SyntaxError: It cannot be decoded or parsed.
    """
    tree = parse(data, path)
    return sorted(_check(tree, data, path, as_nats or imports.imports_of(tree).as_nats))


def _check(tree: ast.Module, data: bytes, path: str, as_nats: bool) -> Iterator[Finding]:
    names = Inference(tree)
    found = [*imports.find(names, as_nats=as_nats), *_missing(names)]
    module = Module(names, imports.imports_of(tree))
    if module.imports.nats:
        for node in ast.walk(tree):
            for rule in RULES:
                if isinstance(node, rule.node):
                    for at, what in rule.check(node, module):
                        found.append(Hit(at, Kind.DIFFERENCE, rule.name, what, rule.remedy, rule.anchor))
    lines = text_lines(data)
    for hit in dict.fromkeys(found):
        line, offset = getattr(hit.node, "lineno", 1), getattr(hit.node, "col_offset", 0)
        # The syntax tree counts bytes of UTF-8.
        column = len(lines[line - 1].encode()[:offset].decode("utf-8", "replace")) + 1 if line <= len(lines) else 1
        yield Finding(path, line, column, hit.kind, hit.rule, hit.what, hit.remedy, hit.anchor)


def _missing(names: Inference) -> Iterator[Hit]:
    """Yield uses of names that jetarrow does not have, outside of `from` imports."""
    for node in ast.walk(names.tree):
        if isinstance(node, ast.Attribute):
            meaning = names.of(node)
            path = meaning.path if isinstance(meaning, Ref) else ""
            if path in MISSING or path in SUCCESSORS:
                yield imports.missing(node, path)
                continue
            owner = names.of(node.value)
            member = f"{owner.name}.{node.attr}" if isinstance(owner, Instance) else ""
            if member in MEMBERS:
                yield Hit(node, Kind.MISSING, "missing", f"jetarrow has no {member}", MEMBERS[member], NAMES)
        elif isinstance(node, ast.Call):
            meaning = names.of(node.func)
            if isinstance(meaning, Ref) and nats_types.is_nats(meaning.path):
                name = ".".join(meaning.path.split(".")[-2:])
                if name in _MADE:
                    what = f"{name} has another constructor: its objects are created by the client"
                    yield Hit(node, Kind.MISSING, "constructor", what, _MADE[name], NAMES)


def _unreadable(path: str, error: Exception) -> Finding:
    line, column, reason = 1, 1, str(error) or type(error).__name__
    if isinstance(error, SyntaxError):
        line, column, reason = error.lineno or 1, error.offset or 1, str(error.msg)
    elif isinstance(error, OSError):
        reason = error.strerror or reason
    what = f"cannot be read as Python: {reason}"
    return Finding(path, line, max(column, 1), Kind.UNREADABLE, "unreadable", what, "check it by hand", CHECKLIST)
