"""The rule that escapes foreign text, and its application to every write of the process."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterator

import pytest
from jetarrow.cli import terminal
from jetarrow.cli.progress import bar
from jetarrow.cli.run import run

from tests.cli.test_escapes import FOREIGN, assert_escaped

# Visible characters and joiners that Unicode counts among the format characters.
VISIBLE = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0x13430, 0x13456)}


def test_hidden_characters_are_escaped_and_visible_ones_stay() -> None:
    found = 0
    for number in range(sys.maxunicode + 1):
        char = chr(number)
        if number not in VISIBLE and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            found += 1
            shown = terminal.one_line(char)
            assert shown[0] == "\\", hex(number)
            assert shown.encode("ascii").decode("unicode_escape") == char
    assert found > 2000
    shown = "Zoë 日本語 \u00a0 🚀 ❤️\u200d🔥 \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \ue0b0"
    assert terminal.one_line(shown) == terminal.document(shown) == shown
    assert terminal.one_line("a\u200db\u200c") == r"a\u200db\u200c"
    assert terminal.one_line("a\tb\r\n") == r"a\tb\r\n"
    assert terminal.document("a\tb\r\n") == "a\tb\\r\n"
    assert json.loads(terminal.json_text('["\x7f\U000e0041"]')) == ["\x7f\U000e0041"]


class FakeTerminal(io.StringIO):
    """A text stream whose `isatty` is true."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@contextlib.contextmanager
def fake_terminal() -> Iterator[FakeTerminal]:
    """Replaces stdout and stderr of this process inside the block."""
    fake = FakeTerminal()
    with contextlib.redirect_stdout(fake), contextlib.redirect_stderr(fake):
        yield fake


def under_a_bar() -> None:
    with bar("rows"):
        print(FOREIGN, file=sys.stderr)


def thrown(kind: type[Exception]) -> Callable[[], None]:
    def throw() -> None:
        raise kind(FOREIGN)

    return throw


OTHERS: dict[str, Callable[[], object]] = {
    "print": lambda: print(FOREIGN),
    "bytes": lambda: sys.stdout.buffer.write(FOREIGN.encode()),
    "lines": lambda: sys.stderr.writelines([FOREIGN]),
    "under a bar": under_a_bar,
    "warning": lambda: warnings.warn(FOREIGN, UserWarning, stacklevel=2),
    "log": lambda: logging.getLogger("jetarrow").warning(FOREIGN),
    "log of another library": lambda: logging.getLogger("asyncio").error(FOREIGN),
    "ValueError": thrown(ValueError),
    "error of another library": thrown(type("BinderException", (Exception,), {})),
}


class FakeApp:
    """Replaces the command's subcommands."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def main(self, *_: object, **__: object) -> int:
        self._call()
        return 0


@pytest.mark.parametrize("how", OTHERS)
def test_every_write_of_the_process_is_escaped(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes of libraries are escaped too while the command runs."""
    monkeypatch.setattr("jetarrow.cli.run._command", lambda _subcommand: FakeApp(OTHERS[how]))
    with fake_terminal() as screen:
        run([])
    assert_escaped(screen.getvalue())


def test_a_character_in_two_pieces_and_half_a_character() -> None:
    with fake_terminal() as screen:
        with terminal.guarded():
            sys.stdout.buffer.write(b"\xc3")
            sys.stdout.buffer.write(b"\xa9 \xff ")
            sys.stdout.buffer.write(memoryview(b"\xe2\x82"))
        assert sys.stdout is screen
    assert screen.getvalue() == r"é \xff \xe2\x82"


def test_a_terminal_without_unicode_shows_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeTerminal, "encoding", "ascii")
    with fake_terminal() as screen, terminal.guarded():
        print("é")
    assert screen.getvalue() == "\\xe9\n"
