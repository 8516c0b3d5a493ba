"""Imports of nats-py, of its successors and of frameworks on it: each is found, and its replacement works."""

from __future__ import annotations

import re

import pytest
from jetarrow.migrate import Finding, Kind

from tests.migrate.tools import findings

IMPORTS = {
    "import nats": "import jetarrow as nats",
    "import nats as n": "import jetarrow as n",
    "import nats.aio.client": "import jetarrow.aio.client` and `import jetarrow as nats",
    "import nats.js.api as api": "import jetarrow.js.api as api",
    "from nats import connect": "from jetarrow import connect",
    "from nats import NATS as N, errors": "from jetarrow import NATS as N, errors",
    "from nats.aio.client import Client as NATS": "from jetarrow.aio.client import Client as NATS",
    "from nats.aio import client, msg as m": "from jetarrow.aio import client, msg as m",
    "from nats.aio.errors import ErrTimeout": "from jetarrow.aio.errors import ErrTimeout",
    "from nats.js.api import *": "from jetarrow.js.api import *",
    "from nats.js import kv, object_store": "from jetarrow.js import kv, object_store",
    "from nats.micro import add_service": "from jetarrow.micro import add_service",
    "from nats.nuid import NUID": "from jetarrow.nuid import NUID",
    "from nats.protocol import parser": "from jetarrow.protocol import parser",
    # Successors.
    "import nats.client": "import jetarrow.nats.client` and `from jetarrow import nats",
    "import nats.jetstream as js": "import jetarrow.nats.jetstream as js",
    "from nats.client import connect": "from jetarrow.nats.client import connect",
    "from nats.jetstream import new": "from jetarrow.nats.jetstream import new",
    "from nats.key_value import KeyValue": "from jetarrow.nats.key_value import KeyValue",
    "from nats import client as c": "from jetarrow.nats import client as c",
}


def imports(program: str, *, as_nats: bool = False) -> list[Finding]:
    return [one for one in findings(program, as_nats=as_nats) if one.kind is Kind.IMPORT]


@pytest.mark.parametrize("line", IMPORTS)
def test_an_import_is_found_with_its_replacement(line: str) -> None:
    (one,) = imports(line)
    assert (one.remedy, one.rule, one.anchor) == (f"write `{IMPORTS[line]}`", "import", "imports")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("line", IMPORTS)
def test_the_replacement_binds_the_same_names(line: str) -> None:
    before: dict[str, object] = {}
    after: dict[str, object] = {}
    for code in re.findall(r"`(.*?)`", f"`{IMPORTS[line]}`"):
        exec(code, after)
    if "jetarrow.nats" not in IMPORTS[line]:
        exec(line, before)
        # A star also binds the names that nats-py's module imports for itself.
        own = {name: value for name, value in before.items() if "*" not in line or "nats" in str(value)}
        assert {name for name in own if not name.startswith("_")} <= set(after)
        dotted = re.fullmatch(r"import (nats\.[\w.]+)", line)
        if dotted:
            eval(dotted[1], after)


def test_every_import_of_a_line_is_found_at_its_place() -> None:
    found = imports("import os, nats, nats.js as js\nfrom nats import connect, jetstream\n")
    assert [(one.line, one.column) for one in found] == [(1, 12), (1, 18), (2, 1), (2, 1)]
    assert {one.remedy for one in found[2:]} == {
        "write `from jetarrow import connect`",
        "write `from jetarrow.nats import jetstream`",
    }


def test_imports_inside_functions_and_conditions_are_found() -> None:
    program = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from nats.aio.msg import Msg
def connect():
    import nats
"""
    assert [one.line for one in imports(program)] == [4, 6]


def test_names_in_texts_are_found() -> None:
    program = """
import importlib
from importlib import import_module as load
from unittest import mock
importlib.import_module("nats.js")
load("nats")
__import__("nats.errors")
mock.patch("nats.aio.client.Client.connect")
load("natsort")
open("nats.js")
"""
    assert [(one.line, one.remedy) for one in imports(program)] == [
        (5, "write 'jetarrow.js'"),
        (6, "write 'jetarrow'"),
        (7, "write 'jetarrow.errors'"),
        (8, "write 'jetarrow.aio.client.Client.connect'"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "from .nats import x",
        "from . import nats",
        "import natsort",
        "import jetarrow as nats",
        "from natsrpy import Nats",
        "import nats.server",
        "from nats import server",
    ],
)
def test_other_imports_are_not_found(line: str) -> None:
    assert findings(f"{line}\n") == []


def test_a_module_that_neither_client_has_is_found() -> None:
    (one,) = findings("import nats.contrib")
    assert (one.kind, one.rule, one.what) == ("missing", "module", "jetarrow has no module for nats.contrib")


@pytest.mark.parametrize(
    "line", ["from faststream.nats import NatsBroker", "import taskiq_nats", "from taskiq_nats.result_backend import X"]
)
def test_frameworks_are_found_unless_the_program_uses_as_nats(line: str) -> None:
    (one,) = findings(line)
    assert (one.rule, one.anchor) == ("framework", "frameworks-on-nats-py")
    assert findings(f"import jetarrow.as_nats\n{line}") == []


def test_with_as_nats_only_names_and_differences_are_found() -> None:
    program = "import jetarrow.as_nats\nimport nats\nfrom nats.aio.client import Parser\nimport nats.client\n"
    assert [(one.line, one.rule) for one in findings(program)] == [(3, "missing")]
    rest = program.partition("\n")[2]
    assert [(one.line, one.rule) for one in findings(rest, as_nats=True)] == [(2, "missing")]
    assert len(findings(rest)) == 3


@pytest.mark.parametrize(
    "line",
    [
        "from nats.client import ParseError, connect",
        "from nats.client.protocol import parse",
        "import nats.client.connection",
        "from nats.client import connection",
    ],
)
def test_a_name_of_a_successor_that_jetarrow_does_not_have_is_found(line: str) -> None:
    (one,) = [one for one in findings(line) if one.kind == "missing"]
    assert (one.rule, one.anchor) == ("missing", "successors-of-nats-py")
    kept = ["write `from jetarrow.nats.client import connect`"] if ", connect" in line else []
    assert [one.remedy for one in imports(line)] == kept


def test_a_use_of_such_a_name_is_found() -> None:
    used = [one for one in findings("import nats.client as c\nc.ParseError\nc.connect\n") if one.kind == "missing"]
    assert [(one.line, one.what) for one in used] == [(2, "jetarrow has no nats.client.ParseError")]
