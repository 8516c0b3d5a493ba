"""Names and objects are followed within a file, and a finding needs all bindings of a name to agree."""

from __future__ import annotations

import ast
import sys

import pytest
from jetarrow.migrate.scopes import Scopes

from tests.migrate.tools import expected, found

# `nc.pending_data_size` is found if and only if `nc` is a client.
PROGRAMS = {
    "annotation of a parameter": """
from nats.aio.client import Client
def a(nc: Client): nc.pending_data_size  # ! pending-data-size
def b(nc: "Client"): nc.pending_data_size  # ! pending-data-size
def c(nc: Client | None): nc.pending_data_size  # ! pending-data-size
def d(nc: str): nc.pending_data_size
def e(nc): nc.pending_data_size
""",
    "optional": """
from typing import Optional, Annotated
import nats
def a(nc: Optional[nats.NATS]): nc.pending_data_size  # ! pending-data-size
def b(nc: Annotated[nats.NATS, "x"]): nc.pending_data_size  # ! pending-data-size
def c(nc: list[nats.NATS]): nc.pending_data_size
""",
    "attribute of self": """
import nats
class Base:
    nc = None
    def __init__(self):
        self.nc = None
    async def start(self):
        self.nc = nats.NATS()
    def size(self):
        return self.nc.pending_data_size  # ! pending-data-size
    @staticmethod
    def other(self):
        return self.nc.pending_data_size
class Derived(Base):
    def more(this):
        def inner():
            return this.nc.pending_data_size  # ! pending-data-size
        return inner
class Other:
    def size(self):
        return self.nc.pending_data_size
    @staticmethod
    def none(self):
        return self.nc.pending_data_size
""",
    "attributes that are bound twice": """
import nats
class A:
    def __init__(self, other):
        self.nc = nats.NATS()
        self.nc = other
    def size(self):
        return self.nc.pending_data_size
""",
    "module and function": """
import nats
nc = nats.NATS()
def a(): nc.pending_data_size  # ! pending-data-size
def b(nc): nc.pending_data_size
def c():
    nc = object()
    nc.pending_data_size
def d():
    global late
    late = nats.NATS()
def e(): late.pending_data_size  # ! pending-data-size
""",
    "names of a class": """
import nats
class A:
    nc = nats.NATS()
    nc.pending_data_size  # ! pending-data-size
    def size(self):
        nc.pending_data_size
""",
    "bound twice": """
import nats
def a(x):
    nc = nats.NATS()
    if x:
        nc = x
    nc.pending_data_size
def b(x):
    nc = None
    if x:
        nc = nats.NATS()
    nc.pending_data_size  # ! pending-data-size
def c(x):
    for nc in x: ...
    nc = nats.NATS()
    nc.pending_data_size
""",
    "async with and walrus": """
import nats
async def a():
    async with await nats.connect(max_reconnect_attempts=-1, ping_interval=1) as nc:
        nc.pending_data_size  # ! pending-data-size
    if (other := nats.NATS()):
        other.pending_data_size  # ! pending-data-size
    [last := nats.NATS() for _ in range(2)]
    last.pending_data_size  # ! pending-data-size
async def b():
    nc = nats.connect(max_reconnect_attempts=-1, ping_interval=1)
    nc.pending_data_size
""",
    "functions of the module": """
import nats
async def make() -> nats.NATS: ...
def sync() -> "nats.NATS": ...
async def a():
    nc = await make()
    nc.pending_data_size  # ! pending-data-size
    sync().pending_data_size  # ! pending-data-size
    make().pending_data_size
""",
    "either client": """
try:
    import nats
except ImportError:
    import jetarrow as nats
nc = nats.NATS()
nc.pending_data_size
""",
    "nats-py or None": """
try:
    import nats
except ImportError:
    nats = None
nc = nats.NATS()
nc.pending_data_size  # ! pending-data-size
""",
    "shadowed": """
import nats
def a(nats):
    nats.NATS().pending_data_size
def b(print, msg: nats.aio.msg.Msg):
    print(msg)
[nats for nats in ()]
nats.NATS().pending_data_size  # ! pending-data-size
""",
    "unknown objects beside another client": """
import nats
import jetarrow
async def a(js): await js.pull_subscribe("a")
""",
    "unknown objects without nats-py": """
async def a(js): await js.pull_subscribe("a")
""",
    "classes of the module": """
import nats
class Msg: ...
class Client: ...
def a(m: Msg, nc: Client):
    nc.pending_data_size
    print(m)
    if type(m) is Msg: ...
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_objects_are_known_where_all_bindings_agree(name: str) -> None:
    assert found(PROGRAMS[name]) == expected(PROGRAMS[name])


def test_names_that_refer_to_each_other_end() -> None:
    steps = "".join(f"    s = s.m{number}(s)\n" for number in range(200))
    program = (
        "import nats\nfrom nats.js.api import StreamConfig\n"
        f"def a(s):\n{steps}"
        "class B:\n    x = x * 2\n    y = y - 1\n    StreamConfig(max_age=x)\n"
        "class C(D): ...\nclass D(C):\n    def go(self): self.nc.pending_data_size\n"
        "a = b\nb = a\na.pending_data_size\n"
    )
    assert found(program) == []


def test_every_part_of_a_program_has_a_scope() -> None:
    program = """
import nats
async def a(x: int, /, y=1, *z: str, k=lambda q, *r: q, **w) -> None:
    [n.b for n.b, *(m[0]) in x if m]
    {k: v async for k, v in x}
    match x:
        case {"a": 1, **rest} | [1, *other]: ...
    try: ...
    except* (A, B) as error: ...
    def inner():
        nonlocal x
        x = f"{x!r:{y}}"
    del x
    x += (yield)
@decorated(nats)
class C(Base, metaclass=M):
    a: int = 3
"""
    tree = ast.parse(program)
    scopes = Scopes(tree)
    assert all(node in scopes.of for node in ast.walk(tree))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")
def test_parameters_of_types_are_other_names() -> None:
    program = """
import nats
def a[nats: int](nc: nats) -> nats:
    nats.NATS().pending_data_size
type X[T] = list[T]
class C[T]: ...
"""
    assert found(program) == []
