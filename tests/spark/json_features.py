"""Payloads for a comparison of the native decoder with `from_json`: documents with one peculiarity each."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable

SCHEMA = (
    "i int, l bigint, d double, e decimal(10,2), s string, b boolean, t timestamp, n timestamp_ntz, y date, x binary,"
    " a array<int>, o struct<p: int, q: string>, m map<string, int>"
)
ZONE = "America/New_York"

# Members of one peculiar value each: the value's field and its JSON text, which may be invalid.
VALUES: dict[str, tuple[str, ...]] = {
    "an integer with a zero fraction or an exponent": ('"i": 1.0', '"l": 1e2'),
    "an integer with a fraction": ('"i": 1.5',),
    "an integer in a string": ('"i": "7"', '"l": "7"'),
    "an integer out of range": ('"i": 2147483648', '"l": 9223372036854775808'),
    "a double in a string": ('"d": "1.5"',),
    "a double beyond the largest": ('"d": 1e999', '"d": -1e999'),
    "NaN and Infinity": ('"d": NaN', '"d": "NaN"', '"d": Infinity', '"d": "-Infinity"', '"d": -INF', '"d": "+INF"'),
    "a decimal in a string": ('"e": "12.25"',),
    "a decimal with more digits below the scale": ('"e": 1.005', '"e": 2.675'),
    "a decimal with too many digits": ('"e": 123456789.01',),
    "a string for a boolean": ('"b": "true"',),
    "a number for a boolean": ('"b": 1',),
    "an object or array for a string": ('"s": {"k": [1, 2], "z": "a b"}', '"s": [ ]', '"s": [true, null]'),
    "a boolean or integer for a string": ('"s": true', '"s": 12', '"s": -7'),
    "a fraction for a string": ('"s": 12.50', '"s": 1e3'),
    "an escape in an object for a string": ('"s": {"k": "\\u00e9"}',),
    "an escape in a string": ('"s": "\\u00e9\\n\\/\\ud83d\\ude00"',),
    "a time with an offset": ('"t": "2024-03-10T12:30:00Z"', '"t": "2024-03-10T12:30:00.123456+05:30"'),
    "a time without an offset": ('"t": "2024-07-01T12:30:00"', '"t": "2024-07-01 12:30:00.5"', '"t": "2024-07-01"'),
    "a time that the clocks skip or repeat": ('"t": "2024-03-10T02:30:00"', '"t": "2024-11-03T01:30:00"'),
    "a time without seconds": ('"t": "2024-07-01T12:30"',),
    "a time with nine digits of a fraction": ('"t": "2024-07-01T12:30:00.123456789Z"',),
    "a time with ten digits of a fraction": ('"t": "2024-07-01T12:30:00.1234567891Z"',),
    "a time with the name of a zone": ('"t": "2024-07-01T12:30:00 Europe/Berlin"', '"t": "2024-07-01T12:30:00UTC"'),
    "a time with single digits": ('"t": "2024-7-1 3:04:05"', '"n": "2024-7-1T3:4:5"'),
    "a time of year and month": ('"t": "2024-07"', '"t": "2024"'),
    "a time between spaces": ('"t": " 2024-07-01T12:30:00 "',),
    "seconds since 1970": ('"t": 1710037800', '"t": -1'),
    "seconds with a fraction": ('"t": 1710037800.5', '"t": 1.7100378e9'),
    "a local time": ('"n": "2024-07-01T12:30:00"', '"n": "2024-07-01"'),
    "a local time with an offset": ('"n": "2024-07-01T12:30:00Z"',),
    "a number for a local time": ('"n": 1710037800',),
    "a date": ('"y": "2024-07-01"', '"y": "1969-12-31"'),
    "a date with single digits, or of year and month": ('"y": "2024-7-1"', '"y": "2024-07"'),
    "a date with a time": ('"y": "2024-07-01T12:30:00"',),
    "a number for a date": ('"y": 19905',),
    "base64 without padding": ('"x": "YWI"',),
    "base64 of URLs": ('"x": "-_-_"',),
    "an array with a value that does not fit": ('"a": [1, "x", 3]',),
    "an object with a value that does not fit": ('"o": {"p": "x", "q": "kept"}', '"o": {"q": [1], "p": {}}'),
    "a map with a value that does not fit": ('"m": {"k": 1, "l": "x"}',),
    "an object for an array": ('"a": {"k": 1}',),
    "an array for an object": ('"o": [1]',),
    "a name that occurs twice": ('"i": 1, "i": 2', '"o": {"p": 1, "p": 2}'),
    "a key of a map that occurs twice": ('"m": {"k": 1, "k": 2}',),
    "a name in another case": ('"I": 5',),
    "an unknown member": ('"unknown": {"k": [1, {"x": null}]}',),
    "a control character in a string": ('"s": "a\tb"',),
    "half of a surrogate pair": ('"s": "\\ud800"',),
    "a leading zero": ('"i": 007',),
    "a text in single quotes": ("'s': 'text'",),
    "a name without quotes": ("s: 1",),
    "a comment": ('/* c */ "i": 1',),
    "a comma before the end": ('"i": 1,',),
}
# Whole documents.
DOCUMENTS: dict[str, tuple[bytes, ...]] = {
    "an empty payload": (b"", b"  ", b"\n"),
    "null as the document": (b"null",),
    "an array as the document": (b"[]", b'[{"i": 1}]'),
    "a value as the document": (b"1", b'"text"', b"true"),
    "text after the document": (b'{"i": 1} x', b'{"i": 1}{"i": 2}'),
    "a document that is cut off": (b'{"i": 1, "s": "te', b'{"i": 1'),
    "no JSON": (b"hello", b"{]"),
    "invalid UTF-8": (b'{"i": 1, "s": "\xff"}',),
    "nesting deeper than 128": (b'{"i": 1, "unknown": ' + b"[" * 200 + b"]" * 200 + b"}",),
}
FEATURES = (*VALUES, *DOCUMENTS)


def payloads(count: int, seed: int) -> list[tuple[str, bytes]]:
    """`count` payloads, each with its peculiarity, "" for none. Every one occurs."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        feature = FEATURES[number // 2 % len(FEATURES)] if number % 2 else ""
        if feature in DOCUMENTS:
            found.append((feature, rng.choice(DOCUMENTS[feature])))
        else:
            found.append((feature, _document(rng, rng.choice(VALUES[feature]) if feature else None)))
    return found


def _document(rng: random.Random, peculiar: str | None) -> bytes:
    """A random document whose other members agree with the schema."""
    used = peculiar.lstrip()[1:2].lower() if peculiar else ""
    members = [
        f'"{name}": {"null" if rng.random() < 0.1 else make(rng)}'
        for name, make in _PLAIN.items()
        if name != used and rng.random() < 0.6
    ]
    rng.shuffle(members)
    if peculiar is not None:
        # A comma before the end has to be the last.
        at = len(members) if peculiar.endswith(",") else rng.randint(0, len(members))
        members.insert(at, peculiar)
    return ("{" + ", ".join(members) + "}").encode("utf-8", "surrogatepass")


def _text(rng: random.Random) -> str:
    return "".join(rng.choices("abcäß€😀 \"\\/{}[]:,'", k=rng.randint(0, 12)))


def _time(rng: random.Random) -> str:
    year, month, day = rng.randint(1950, 2090), rng.randint(1, 12), rng.randint(1, 28)
    return f"{year}-{month:02}-{day:02}T{rng.randint(4, 23):02}:{rng.randint(0, 59):02}:07"


_PLAIN: dict[str, Callable[[random.Random], str]] = {
    "i": lambda rng: str(rng.randint(-(2**31), 2**31 - 1)),
    "l": lambda rng: str(rng.randint(-(2**63), 2**63 - 1)),
    "d": lambda rng: repr(rng.choice([rng.uniform(-1e6, 1e6), rng.uniform(-1, 1) * 1e-300, rng.random() * 1e300])),
    "e": lambda rng: str(rng.randint(-(10**10) + 1, 10**10 - 1) / 100),
    "s": lambda rng: json.dumps(_text(rng), ensure_ascii=rng.random() < 0.5),
    "b": lambda rng: rng.choice(["true", "false"]),
    "t": lambda rng: f'"{_time(rng)}{rng.choice(["", "Z", ".25", ".123456+02:00"])}"',
    "n": lambda rng: f'"{_time(rng)}{rng.choice(["", ".125"])}"',
    "y": lambda rng: f'"{_time(rng)[:10]}"',
    "x": lambda rng: json.dumps(base64.b64encode(rng.randbytes(rng.randint(1, 9))).decode()),
    "a": lambda rng: json.dumps([rng.choice([None, rng.randint(-9, 9)]) for _ in range(rng.randint(0, 4))]),
    "o": lambda rng: json.dumps({"p": rng.randint(-9, 9), "q": _text(rng)}),
    "m": lambda rng: json.dumps({f"k{number}": number for number in range(rng.randint(0, 3))}),
}
