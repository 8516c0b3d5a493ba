"""`import jetarrow.as_nats`: every later `import nats…` finds jetarrow. Each in an interpreter of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .test_frameworks import run
from .test_imports import PATHS

MODULES = [
    "aio.client",
    "aio.msg",
    "aio.subscription",
    "errors",
    "nuid",
    "js",
    "js.api",
    "js.client",
    "js.errors",
    "js.kv",
    "js.manager",
    "js.object_store",
]
SUCCESSORS = ["client", "client.errors", "client.message"]


def python(code: str) -> str:
    done = run("nats", "-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("module", MODULES)
def test_modules_are_jetarrows_own(module: str) -> None:
    code = f"""
import jetarrow.as_nats
import nats.{module} as there
import importlib
own = importlib.import_module("jetarrow.{module}")
print(there is own, own.__spec__.name, own.__name__, importlib.import_module("nats.{module}") is own)
"""
    assert python(code) == f"True jetarrow.{module} jetarrow.{module} True"


@pytest.mark.parametrize("module", SUCCESSORS)
def test_modules_of_the_successors(module: str) -> None:
    code = f"""
import jetarrow.as_nats
import nats.{module} as there
import importlib, nats
own = importlib.import_module("jetarrow.nats.{module}")
print(there is own, own.__name__, importlib.import_module("nats.{module}") is own)
"""
    assert python(code) == f"True jetarrow.nats.{module} True"


def test_another_package_below_nats_is_found_where_it_is(tmp_path: Path) -> None:
    server = tmp_path / "nats" / "server"
    server.mkdir(parents=True)
    (server / "__init__.py").write_text("from .part import name\n")
    (server / "part.py").write_text("name = 'theirs'\n")
    code = f"""
import sys
sys.path.append({str(tmp_path)!r})
import jetarrow.as_nats
from nats import server
import nats.server.part, nats.client
print(server.name, nats.server.part.name, nats.client.Client.__module__)
"""
    assert python(code) == "theirs theirs jetarrow.nats.client.client"


def test_all_ways_to_import() -> None:
    code = """
import jetarrow.as_nats, jetarrow
import nats
from nats import NATS, connect, errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import TimeoutError
from nats.js import JetStreamContext, api
from nats.js.api import ConsumerConfig
print(NATS is jetarrow.Client is Client, connect is jetarrow.connect, errors is jetarrow.errors)
print(Msg is jetarrow.aio.msg.Msg, TimeoutError is jetarrow.errors.TimeoutError, api is jetarrow.js.api)
print(JetStreamContext is jetarrow.js.JetStreamContext, ConsumerConfig is api.ConsumerConfig)
"""
    assert set(python(code).split()) == {"True"}


@pytest.mark.parametrize("path", PATHS)
def test_paths_after_a_plain_import(path: str) -> None:
    assert python(f"import jetarrow.as_nats, nats; print(nats.{path}.__module__)").startswith("jetarrow")


def test_it_says_for_what_it_stands() -> None:
    assert python("import jetarrow.as_nats, nats, jetarrow; print(nats.__version__)") == "2.16.0"


def test_twice_is_once() -> None:
    code = """
import jetarrow.as_nats, sys, importlib, nats
before = list(sys.meta_path)
importlib.import_module("jetarrow.as_nats")
print(sys.meta_path == before, nats is sys.modules["nats"])
"""
    assert python(code) == "True True"


@pytest.mark.parametrize("first", ["import nats", "from nats.aio.client import Client", "import faststream.nats"])
def test_it_is_refused_after_nats(first: str) -> None:
    done = run("nats", "-c", f"{first}\nimport jetarrow.as_nats")
    assert (done.returncode, "import jetarrow.as_nats before any module that imports nats" in done.stderr) == (1, True)
    assert "ImportError" in done.stderr


@pytest.mark.parametrize(
    "statement",
    [
        "from nats.aio.client import NothingOfTheKind",
        "from nats.js import NothingOfTheKind",
        "from nats import NothingOfTheKind",
        "from nats.aio.client import PING_PROTO",
        "from nats.aio.transport import TcpTransport",
        "import nats.nothing",
        "import nats.aio.nothing",
        "import nats.sync",
    ],
)
def test_what_is_not_there_says_why(statement: str) -> None:
    code = f"""
import jetarrow.as_nats
try:
    {statement}
except ImportError as error:
    print(error)
"""
    text = python(code)
    assert "jetarrow" in text
    assert "in place of nats-py 2.16.0" in text or "native" in text


def test_names_may_be_looked_for() -> None:
    code = """
import jetarrow.as_nats, nats.aio.client, nats.js
for module in (nats, nats.aio, nats.aio.client, nats.js, nats.errors):
    print(hasattr(module, "nothing"), getattr(module, "nothing", None))
"""
    assert set(python(code).split()) == {"False", "None"}


def test_a_line_in_a_pth_file(tmp_path: Path) -> None:
    # As the site module does with every .pth file of site-packages.
    (tmp_path / "jetarrow.pth").write_text("import jetarrow.as_nats\n")
    code = f"import site; site.addsitedir({str(tmp_path)!r}); import nats; print(nats.NATS.__module__)"
    assert python(code) == "jetarrow.client"


def test_installing_it_loads_nothing() -> None:
    # A .pth file runs at every start of Python.
    code = "import sys, jetarrow.as_nats; print({'asyncio', 'nats', 'jetarrow._jetarrow'} & set(sys.modules))"
    assert python(code) == "set()"


def test_a_program_runs_as_python_would_run_it(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("WORD = 'beside'\n")
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, nats, jetarrow.as_nats\nfrom beside import WORD\n"
        "if __name__ == '__main__': print(sys.argv[1:], WORD, nats.__version__, __file__ == sys.argv[0])\n"
        "raise SystemExit(3)\n"
    )
    done = run("jetarrow", str(program), "-x", "y")
    assert (done.returncode, done.stdout.strip()) == (3, "['-x', 'y'] beside 2.16.0 True")
    done = run(
        "jetarrow", "-m", "program", "z", PYTHONPATH=f"{Path(sys.modules['jetarrow'].__path__[0]).parent}:{tmp_path}"
    )
    assert (done.returncode, done.stdout.strip()) == (3, "['z'] beside 2.16.0 True")


@pytest.mark.parametrize("arguments", [[], ["-m"]])
def test_without_a_program(arguments: list[str]) -> None:
    done = run("jetarrow", *arguments)
    assert (done.returncode, done.stderr.startswith("usage: ")) == (2, True)
