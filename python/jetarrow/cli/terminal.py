r"""Protection of the terminal: control and hidden characters are written as escapes such as `\x1b`.

Subjects, payloads, names and headers are untrusted. An escape sequence in one of them could set the title of the
terminal, hide a line, or type text into the shell. `guarded` replaces stdout and stderr, each if it is a terminal, so
every write of the process is covered. Pipes and files receive the bytes unchanged.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import re
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from rich.file_proxy import FileProxy

# Control characters (C0, DEL, C1), lone surrogates, line separators, and characters that have no width, reorder text or
# hide it: Unicode's default ignorable code points. tests/cli/test_escape_rule.py compares them with unicodedata.
_HIDDEN = (
    "\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Joiners are part of words and emoji between two characters outside of ASCII, and hide text anywhere else.
_JOINED = "[\u00a1-\u1fff\u2070-\U0010ffff]"
_JOINER = f"(?<!{_JOINED})[\u200c\u200d]|[\u200c\u200d](?!{_JOINED})"
_IN_LINE = re.compile(f"[{_HIDDEN}]|{_JOINER}")
# Line breaks and tabs of a payload or a document are kept.
_IN_DOCUMENT = re.compile(f"(?![\n\t])[{_HIDDEN}]|{_JOINER}")


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _escape_json(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def one_line(text: str) -> str:
    """Escape hidden characters, line breaks and tabs: for a cell, a name, a message."""
    # Fast path: nearly all texts are printable ASCII.
    return text if text.isascii() and text.isprintable() else _IN_LINE.sub(_escape, text)


def document(text: str) -> str:
    """Escape hidden characters, but neither line breaks nor tabs: for a payload."""
    return _IN_DOCUMENT.sub(_escape, text)


def json_text(text: str) -> str:
    """Escape hidden characters of a JSON document without changing its value."""
    return _IN_DOCUMENT.sub(_escape_json, text)


def unguarded(stream: Any) -> Any:
    """Return the stream that `guarded` and rich have wrapped, for a `rich.Console` that escapes by itself."""
    while (inner := getattr(stream, "rich_proxied_file", None)) is not None:
        stream = inner
    return stream


class _Stream:
    """A text stream that escapes everything written to the terminal.

    Args:
        stream: The terminal's stream.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        # rich's proxy exposes the buffer of the guard that it wraps.
        self.buffer = stream.buffer if isinstance(stream, FileProxy) else _Bytes(self)
        # rich, which renders typer's help, writes its escape codes to the stream of this attribute.
        self.rich_proxied_file = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text."""
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(document(text).encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write texts."""
        for line in lines:
            self.write(line)


class _Bytes(io.BufferedIOBase):
    """The binary buffer of a `_Stream`. Bytes that are not UTF-8 are escaped too."""

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream
        # A chunk may end within a character.
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        view = memoryview(data)
        self._stream.write(self._decoder.decode(bytes(view)))
        return view.nbytes

    def flush(self) -> None:
        self._stream.flush()

    def finish(self) -> None:
        """Write the bytes of an incomplete character."""
        if rest := self._decoder.decode(b"", final=True):
            self._stream.write(rest)


def guard_proxies() -> None:
    """Guard the proxies that rich installs as stdout and stderr while it draws, because they interpret escape codes."""
    for name in ("stdout", "stderr"):
        if isinstance(stream := getattr(sys, name), FileProxy):
            setattr(sys, name, _Stream(stream))


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Replace stdout and stderr within the block, each if it is a terminal."""
    with contextlib.ExitStack() as stack:
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is not None and stream.isatty():
                stack.enter_context(_guard(name, stream))
        yield


@contextlib.contextmanager
def _guard(name: str, stream: TextIO) -> Iterator[None]:
    guard = _Stream(stream)
    setattr(sys, name, guard)
    try:
        yield
        # Writing to a closed terminal fails.
        with contextlib.suppress(OSError, ValueError):
            guard.buffer.finish()
    finally:
        setattr(sys, name, stream)
