"""Unique names."""

from __future__ import annotations

import os
import string
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from jetarrow import nuid


def test_names_are_22_letters_and_digits() -> None:
    name = nuid.NUID().next()
    assert (type(name), len(name)) == (bytearray, nuid.TOTAL_LENGTH)
    assert set(name.decode()) <= set(string.ascii_letters + string.digits)


def test_no_name_comes_twice() -> None:
    one, other = nuid.NUID(), nuid.NUID()
    names = [bytes(source.next()) for _ in range(20_000) for source in (one, other)]
    assert len(set(names)) == 40_000


def test_threads_share_one() -> None:
    source = nuid.NUID()
    with ThreadPoolExecutor(4) as pool:
        rounds = pool.map(lambda _: [bytes(source.next()) for _ in range(5_000)], range(4))
        names = [name for names in rounds for name in names]
    assert len(set(names)) == 20_000


def test_the_prefix_changes_when_the_numbers_are_used_up() -> None:
    source = nuid.NUID()
    before = bytes(source.next())[: nuid.PREFIX_LENGTH]
    assert bytes(source.next())[: nuid.PREFIX_LENGTH] == before
    source._seq = nuid.MAX_SEQ - 1
    after = bytes(source.next())
    assert after[: nuid.PREFIX_LENGTH] != before
    source._seq = 61 - source._inc
    assert bytes(source.next())[nuid.PREFIX_LENGTH :] == b"000000000z"


FORK = """
import os, sys
from jetarrow import nuid
source = nuid.NUID()
source.next()
child = os.fork()
print(f"{'parent' if child else 'child'} {bytes(source.next()).decode()}\\n", end="", flush=True)
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_gives_other_names() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=30, check=True)
    names = dict(line.split() for line in done.stdout.splitlines())
    assert names.keys() == {"child", "parent"}
    assert {len(name) for name in names.values()} == {nuid.TOTAL_LENGTH}
    assert len({name[: nuid.PREFIX_LENGTH] for name in names.values()}) == 2
