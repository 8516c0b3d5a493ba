"""Generated options, offsets and subjects of the data source (Hypothesis, no Spark)."""

from __future__ import annotations

import datetime
import itertools
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, event, example, given
from hypothesis import strategies as st
from jetarrow.spark.options.connection import CONNECT_OPTIONS
from jetarrow.spark.options.option_texts import OptionTexts, server_list
from jetarrow.spark.options.read import READ_OPTIONS, ReadOptions, read_options
from jetarrow.spark.options.subjects import subject_filters
from jetarrow.spark.options.times import parse_time
from jetarrow.spark.options.write import WRITE_OPTIONS, write_options
from jetarrow.spark.source.filters import covers, matcher
from jetarrow.spark.source.offsets import Entry, Offset

from ..strategies import TEXTS, bounded

# Texts that are valid for some option, or that look valid.
WORDS = st.sampled_from(
    [
        *("", "S,T", "A", "earliest", "latest", "{}", '{"S":1}', '{"S":-1}', '{"S":true}', '{"S":1e999}'),
        *(
            "0",
            "1",
            "-1",
            "1.5",
            "12k",
            "8m",
            "1g",
            "5s",
            "2m",
            "1d",
            "9" * 400,
            "\u0661\u0662",
            "true",
            "FALSE",
            "json",
        ),
        *(
            "all",
            "purge",
            "consumer",
            "state",
            "content",
            "none",
            "atomic",
            "fast",
            "pull",
            "binary",
            "zlib",
            ".*",
            "(",
        ),
        *("a.>", "a.*,b", "a,a", ">", "*", "UTC", "+25:00", "Europe/Berlin", "2026-01-31", "2026-01-31T12:00:00Z"),
        *("9999999999999999", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00", "2026-02-30", "localhost"),
        *("nats://h:1", "http://h", "nats://h:99999", "nats://[::1", "env:NATS_X", "file:/x"),
    ]
)
VALUES = WORDS | TEXTS | st.lists(WORDS, min_size=2, max_size=3).map(",".join)
# A secret: no text that an operator sees may contain it, not even in part.
HIDDEN = "hunter2"
SECRETS = ("password", "authToken", "credsSecret", "nkeySecret")
READERS: list[tuple[tuple[str, ...], Callable[[dict[str, str]], Any]]] = [
    (READ_OPTIONS, lambda given: read_options(given, streaming=False)),
    (READ_OPTIONS, lambda given: read_options(given, streaming=True)),
    (WRITE_OPTIONS, write_options),
]


def outcome(read: Callable[[Any], Any], given: Any) -> Any:
    """The parsed value, or the exception."""
    try:
        return read(given)
    except Exception as error:
        return error


@bounded(300)
@given(st.data(), st.sampled_from(READERS), st.booleans())
def test_any_options_are_taken_or_refused_in_a_line(
    data: st.DataObject, reader: tuple[tuple[str, ...], Callable[[dict[str, str]], Any]], sound: bool
) -> None:
    """The error names an option; secrets are in no text, whatever else is wrong."""
    names, read = reader
    given_options = data.draw(
        st.dictionaries(st.sampled_from([n for n in names if n not in SECRETS]), VALUES, max_size=4)
    )
    if sound:
        given_options = {"servers": "a:1", "stream": "S", **given_options}
    secret = data.draw(st.sampled_from(SECRETS))
    given_options[secret] = HIDDEN
    found = outcome(read, given_options)
    assert HIDDEN not in repr(found)
    event(type(found).__name__)
    if isinstance(found, Exception):
        assert type(found) is ValueError
        said = re.match(r"jetstream(?: option '(\w+)')?: ", str(found))
        assert said is not None
        assert said[1] in (None, *names)
        assert "\n" not in str(found)


@bounded(150)
@given(st.integers(1, 2**50), st.sampled_from(["", "k", "m", "g"]), st.sampled_from(["", "b", "ib", "B", "iB"]))
def test_sizes(number: int, unit: str, tail: str) -> None:
    texts = OptionTexts({"FETCHBYTES": f" {number}{unit.upper()}{tail if unit else ''} "}, ["fetchBytes"])
    assert texts.size("fetchBytes", "8m") == number * 1024 ** " kmg".index(unit or " ")


@bounded(100)
@given(
    st.integers(0, 10**9), st.sampled_from([("ms", 0.001), ("s", 1), ("m", 60), ("min", 60), ("h", 3600), ("d", 86400)])
)
def test_durations(number: int, unit: tuple[str, float]) -> None:
    texts = OptionTexts({"maxTriggerDelay": f"{number} {unit[0]}"}, ["maxTriggerDelay"])
    assert texts.seconds("maxTriggerDelay", "15m") == pytest.approx(number * unit[1])


ZONES = st.integers(-18 * 60, 18 * 60).map(lambda minutes: datetime.timezone(datetime.timedelta(minutes=minutes)))
MOMENTS = st.datetimes(timezones=ZONES)


@bounded(300)
@given(MOMENTS, st.integers(0, 999), st.sampled_from("T "))
@example(datetime.datetime(1, 1, 1, tzinfo=datetime.UTC), 0, "T")
@example(datetime.datetime(999, 12, 31, tzinfo=datetime.UTC), 1, "T")
def test_times(moment: datetime.datetime, nanos: int, between: str) -> None:
    """Any time with its zone, to the nanosecond."""
    text = f"{moment.replace(tzinfo=None).isoformat(between, 'microseconds')}{nanos:03d}{moment:%z}"
    try:
        utc = moment.astimezone(datetime.UTC)
    except OverflowError:
        with pytest.raises(ValueError, match="option 'startingTimestamp': the time is out of range"):
            parse_time("startingTimestamp", text, None)
        return
    plain = utc.replace(tzinfo=None).isoformat("T", "microseconds")
    assert parse_time("startingTimestamp", text, None) == f"{plain}{nanos:03d}Z"


@bounded(200)
@given(st.integers(0, 10**16 - 1))
def test_milliseconds(number: int) -> None:
    epoch = datetime.datetime(1970, 1, 1)
    try:
        expected = (epoch + datetime.timedelta(milliseconds=number)).isoformat("T", "microseconds")
    except OverflowError:
        with pytest.raises(ValueError, match="option 'endingTimestamp': the time is out of range"):
            parse_time("endingTimestamp", str(number), None)
    else:
        assert parse_time("endingTimestamp", str(number), None) == f"{expected}000Z"


@bounded(200)
@given(st.dictionaries(st.sampled_from("STU"), st.integers(1, 2**63 - 1) | st.just(-2), min_size=1))
def test_starting_offsets(named: dict[str, int]) -> None:
    options = read_options({"servers": "a", "stream": "S,T,U", "startingOffsets": json.dumps(named)})
    assert isinstance(options, ReadOptions)
    assert {stream: options.start.of(stream, -2) for stream in "STU"} == {"S": -2, "T": -2, "U": -2, **named}


def test_offsets_nested_deeper_than_python_goes() -> None:
    with pytest.raises(ValueError, match="jetstream option 'startingOffsets'"):
        read_options({"servers": "a", "stream": "S", "startingOffsets": "[" * 100_000})


HOSTS = st.from_regex(r"[a-z][a-z0-9-]{0,5}(\.[a-z]{1,3})?", fullmatch=True) | st.sampled_from(["127.0.0.1", "[::1]"])
ADDRESSES = st.builds(
    lambda scheme, host, port: f"{scheme}{host}{'' if port is None else f':{port}'}",
    st.sampled_from(["", "nats://", "tls://"]),
    HOSTS,
    st.none() | st.integers(1, 65535),
)


@bounded(150)
@given(st.lists(ADDRESSES, min_size=1, max_size=4), st.sampled_from([",", " , ", ",,"]))
def test_addresses(addresses: list[str], between: str) -> None:
    expected = tuple(one if "://" in one else f"nats://{one}" for one in addresses)
    assert server_list(between.join(addresses)) == expected


@bounded(300)
@given(
    st.lists(ADDRESSES, max_size=2), st.text(st.characters(exclude_categories=["Cs"]), max_size=8), st.text(max_size=4)
)
@example([], f"{HIDDEN},{HIDDEN}", "")
@example([], f"{HIDDEN}/{HIDDEN}", "")
def test_a_password_in_an_address_is_refused_and_not_shown(addresses: list[str], inside: str, after: str) -> None:
    """Also one with what separates addresses, or parts of one."""
    text = ",".join([*addresses, f"nats://anna:{HIDDEN}{inside}@h:1{after}"])
    with pytest.raises(ValueError, match="jetstream option 'servers'") as caught:
        server_list(text)
    assert HIDDEN not in str(caught.value)


ENTRIES = st.builds(Entry, TEXTS, st.integers(0, 2**63 - 1), st.sampled_from([None, "earliest", "ahead"]))
STREAMS = st.dictionaries(TEXTS, ENTRIES, max_size=4)
OFFSETS = st.builds(Offset, STREAMS, st.none() | STREAMS, st.dictionaries(TEXTS, st.integers(1, 1000), max_size=4))


@bounded(200)
@given(OFFSETS, st.randoms(use_true_random=False))
def test_offsets_come_back_from_sparks_log(offset: Offset, chance: Any) -> None:
    text = json.dumps(offset.json())
    assert Offset.of(json.loads(text)) == offset

    def shuffled(entries: Any) -> Any:
        return None if entries is None else dict(chance.sample(list(entries.items()), len(entries)))

    # Spark compares the text: the same offset is the same text.
    same = Offset(shuffled(offset.streams), shuffled(offset.start), shuffled(offset.parts))
    assert json.dumps(same.json()) == text


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["v", "streams", "from", "parts", "created", "next", "initial"])


@bounded(200)
@given(
    st.dictionaries(KEYS, ANYTHING | st.just(1) | st.dictionaries(TEXTS, st.dictionaries(KEYS, ANYTHING), max_size=2))
)
@example({"v": 1, "streams": {"S": {"created": "x", "next": "no number"}}, "parts": {}})
@example({"v": 1, "streams": {"S": {"created": "x", "next": float("inf")}}, "parts": {}})
@example({"v": 1, "streams": {}, "parts": [1]})
def test_other_checkpoints_are_refused(logged: dict[str, Any]) -> None:
    found = outcome(Offset.of, logged)
    if isinstance(found, Exception):
        assert (type(found), str(found)[:26]) == (ValueError, "jetstream: this checkpoint")
    else:
        assert set(found.json()) <= {"v", "streams", "from", "parts"}


TOKENS = st.sampled_from(["a", "b", "+", "*"])
FILTERS = st.builds(
    lambda tokens, tail: ".".join([*tokens, *tail]),
    st.lists(TOKENS, min_size=1, max_size=3),
    st.sampled_from([[], [">"]]),
)
FILTERS |= st.just(">")
# All subjects of up to four tokens of three.
SUBJECTS = [".".join(tokens) for length in (1, 2, 3, 4) for tokens in itertools.product("ab+", repeat=length)]


def taken(filters: Iterable[str]) -> list[bool]:
    """Whether each subject matches a filter, by a reference implementation."""
    patterns = ["\\.".join({"*": "[^.]+", ">": ".+"}.get(t, re.escape(t)) for t in one.split(".")) for one in filters]
    return [any(re.fullmatch(pattern, subject) for pattern in patterns) for subject in SUBJECTS]


@bounded(150)
@given(FILTERS, FILTERS)
def test_filters_are_refused_where_both_take_a_subject(one: str, other: str) -> None:
    of_one, of_other = taken([one]), taken([other])
    assert covers(one, other) == all(mine >= theirs for mine, theirs in zip(of_one, of_other, strict=True))
    if any(mine and theirs for mine, theirs in zip(of_one, of_other, strict=True)):
        with pytest.raises(ValueError, match=r"jetstream option 'subjects': .* overlap"):
            subject_filters(f"{one}, {other}")
    else:
        assert subject_filters(f"{one}, {other}") == (one, other)


@bounded(100)
@given(st.lists(FILTERS, min_size=1, max_size=3))
def test_filters_in_arrow(filters: list[str]) -> None:
    assert matcher(filters)(pa.array(SUBJECTS)).to_pylist() == taken(filters)


@bounded(150)
@given(TEXTS)
def test_texts_that_are_no_subjects(text: str) -> None:
    """Accepted texts have tokens without whitespace; an error names the option."""
    found = outcome(subject_filters, text)
    if isinstance(found, Exception):
        assert str(found).startswith("jetstream option 'subjects': ")
    else:
        assert all(token and not re.search(r"\s", token) for one in found for token in one.split("."))


def test_names_of_options_in_any_case() -> None:
    @bounded(50)
    @given(st.sampled_from(CONNECT_OPTIONS), st.randoms(use_true_random=False))
    def are_known(name: str, chance: Any) -> None:
        assume(name != "context")
        cased = "".join(chance.choice([letter.lower(), letter.upper()]) for letter in name)
        assert OptionTexts({cased: " x "}, CONNECT_OPTIONS).text(name) == "x"
        assert OptionTexts({cased: "x"}, CONNECT_OPTIONS).unknown() == []

    are_known()
