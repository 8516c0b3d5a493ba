"""Predicates pushed down to the server return the same rows as polars' own filter on all rows (Hypothesis)."""

from __future__ import annotations

import datetime
import itertools
import json
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jetarrow.polars
import jetarrow.sync
import polars as pl
import pytest
from hypothesis import event, given, note
from hypothesis import strategies as st
from jetarrow.polars.bounds import ALL, Bounds, bounds, within
from polars.io.plugins import register_io_source

from tests.strategies import bounded

SCHEMA = {"id": "BIGINT", "v": "DOUBLE", "name": "STRING"}
TOKENS = ["a", "b", "c", "c.x", "c.y", "cc.x"]
ROWS = 40
sequence, topic, stored = pl.col("seq"), pl.col("subject"), pl.col("timestamp")
# Builds an expression from the stream's subject prefix and its messages' times, which are new in each run.
Made = Callable[[str, list[datetime.datetime]], pl.Expr]


@pytest.fixture
def filled(sync_js: jetarrow.sync.JetStream, stream: str) -> str:
    """A stream of 40 messages, 6 of them deleted, one malformed."""
    chance = random.Random(1)
    for number in range(ROWS):
        row = json.dumps({"id": number, "v": number / 8, "name": f"n{number % 5}"})
        sync_js.publish(f"{stream}.{chance.choice(TOKENS)}", "no JSON" if number == 20 else row)
    for seq in chance.sample(range(2, 30), 6):
        sync_js.delete_msg(stream, seq)
    return stream


COMPARED: list[Callable[[Any, Any], Any]] = [
    lambda one, two: one > two,
    lambda one, two: one >= two,
    lambda one, two: one < two,
    lambda one, two: one <= two,
    lambda one, two: one == two,
    lambda one, two: one != two,
]
compared = st.sampled_from(COMPARED)
closed = st.sampled_from(["both", "left", "right", "none"])
seqs = st.integers(-3, ROWS + 3)
tokens = st.sampled_from([*TOKENS, "nowhere", "*", ">", "c.>"])
# A message's time (by its number) and some microseconds before or after it.
moments = st.tuples(st.integers(0, ROWS - 8), st.integers(-2, 2))


@st.composite
def by_sequence(draw: st.DrawFn) -> Made:
    """Comparisons of the sequence: some are pushed down, others are not."""
    form = draw(st.sampled_from(["plain", "mirrored", "between", "between", "in", "null", "fraction", "part"]))
    compare, seq = draw(compared), draw(seqs)
    if form == "between":
        ends: Any = draw(closed)
        made = sequence.is_between(seq, seq + draw(st.integers(-2, 9)), closed=ends)
    elif form == "in":
        many = draw(st.lists(st.none() | seqs, max_size=4))
        made = sequence.is_in(pl.Series(many, dtype=pl.Int64).implode())
    else:
        wanted = {"null": pl.lit(None, pl.Int64), "fraction": pl.lit(seq + 0.5), "part": pl.lit(seq % 7)}
        sides = (sequence % 7 if form == "part" else sequence), wanted.get(form, pl.lit(seq))
        made = compare(*(reversed(sides) if form == "mirrored" else sides))
    return lambda prefix, times: made


@st.composite
def by_time(draw: st.DrawFn) -> Made:
    """Comparisons of the time, in microseconds and nanoseconds, in UTC and in another time zone."""
    one, two, compare = draw(moments), draw(moments), draw(compared)
    ends: Any = draw(closed)
    form = draw(st.sampled_from(["plain", "mirrored", "between", "in", "nanos", "zone", "part"]))

    def made(prefix: str, times: list[datetime.datetime]) -> pl.Expr:
        first, second = (times[number] + datetime.timedelta(microseconds=shift) for number, shift in (one, two))
        utc, far = pl.Datetime("ns", "UTC"), "Asia/Kolkata"
        expressions: dict[str, Callable[[], Any]] = {
            "plain": lambda: compare(stored, first),
            "mirrored": lambda: compare(pl.lit(first).cast(utc), stored),
            "between": lambda: stored.is_between(first, second, closed=ends),
            "in": lambda: stored.is_in(pl.Series([first, second]).cast(utc).implode()),
            "nanos": lambda: compare(stored, pl.lit(first).cast(utc) + pl.duration(nanoseconds=1)),
            "zone": lambda: compare(
                stored.dt.convert_time_zone(far), pl.lit(first).cast(utc).dt.convert_time_zone(far)
            ),
            "part": lambda: compare(stored.dt.microsecond(), 500),
        }
        found: pl.Expr = expressions[form]()
        return found

    return made


@st.composite
def by_subject(draw: st.DrawFn) -> Made:
    """Comparisons of the subject, also with invalid subjects, and with prefixes that end at or within a token."""
    token, compare = draw(tokens), draw(compared)
    many = draw(st.lists(st.none() | tokens, max_size=4))
    cut, tail = draw(st.integers(0, 3)), draw(st.sampled_from(["", ".", "x", " "]))
    form = draw(st.sampled_from(["plain", "mirrored", "in", "begins", "ends", "contains", "null", "none"]))

    def made(prefix: str, times: list[datetime.datetime]) -> pl.Expr:
        subject = f"{prefix}.{token}{tail}"
        among = [None if one is None else f"{prefix}.{one}" for one in many]
        begun = subject[: len(subject) - cut]
        expressions: dict[str, Callable[[], Any]] = {
            "plain": lambda: compare(topic, subject),
            "mirrored": lambda: compare(pl.lit(subject), topic),
            "in": lambda: topic.is_in(pl.Series(among, dtype=pl.String).implode()),
            "begins": lambda: topic.str.starts_with(begun),
            "ends": lambda: topic.str.ends_with(token),
            "contains": lambda: topic.str.contains(token[:1], literal=True),
            "null": lambda: topic.is_null(),
            "none": lambda: topic.str.starts_with(pl.lit(None, pl.String)),
        }
        found: pl.Expr = expressions[form]()
        return found

    return made


def of_rows() -> st.SearchStrategy[Made]:
    """Predicates that only polars can evaluate."""
    forms = [pl.col("id") > 24, pl.col("name") == "n3", pl.col("_error").is_not_null(), pl.lit(True), pl.lit(False)]
    return st.sampled_from(forms).map(lambda form: lambda prefix, times: form)


def _joined(inner: st.SearchStrategy[Made]) -> st.SearchStrategy[Made]:
    def both(one: Made, two: Made) -> Made:
        return lambda prefix, times: one(prefix, times) & two(prefix, times)

    def either(one: Made, two: Made) -> Made:
        return lambda prefix, times: one(prefix, times) | two(prefix, times)

    def neither(one: Made) -> Made:
        return lambda prefix, times: ~one(prefix, times)

    return st.builds(both, inner, inner) | st.builds(either, inner, inner) | st.builds(neither, inner)


atoms = by_sequence() | by_time() | by_subject()
predicates = atoms | st.recursive(atoms | of_rows(), _joined, max_leaves=4)
cuts = st.none() | st.tuples(st.sampled_from([0, 1, 5, 30]), st.sampled_from([0, 1, 9, 60]))


def _takes(filter: str, subject: str) -> bool:
    wanted, tokens = filter.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted, tokens = wanted[:-1], tokens[: len(wanted) - 1] if len(tokens) >= len(wanted) else ["no"] * 9
    return len(wanted) == len(tokens) and all(one in ("*", other) for one, other in zip(wanted, tokens, strict=True))


def _within(bounds: Bounds, seq: int, subject: str, nanos: int) -> bool:
    """Whether a read with these bounds contains this message."""
    ranges = ((bounds.first, seq, bounds.end), (bounds.since, nanos, bounds.until))
    inside = all((low is None or low <= value) and (high is None or value < high) for low, value, high in ranges)
    return inside and (bounds.subjects is None or any(_takes(one, subject) for one in bounds.subjects))


def test_bounds_leave_out_no_row_of_the_answer() -> None:
    """Bounds exclude no row of the result. This test tries many predicates without a server."""
    start = datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC)
    times = [start + datetime.timedelta(microseconds=number) for number in range(ROWS)]
    frame = pl.DataFrame(
        {
            "seq": range(1, ROWS + 1),
            "subject": [f"P.{TOKENS[number % len(TOKENS)]}" for number in range(ROWS)],
            "timestamp": pl.Series(times).cast(pl.Datetime("ns", "UTC")),
            "id": range(ROWS),
            "name": [f"n{number % 5}" for number in range(ROWS)],
            "_error": [None if number % 9 else "wrong" for number in range(ROWS)],
        }
    )
    found: list[Bounds] = []

    def source(_: Any, predicate: pl.Expr | None, __: Any, ___: Any) -> Iterator[pl.DataFrame]:
        found.append(ALL if predicate is None else bounds(predicate))
        yield frame if predicate is None else frame.filter(predicate)

    lazy = register_io_source(source, schema=frame.schema)

    @bounded(500)
    @given(predicates)
    def leave_out_none(predicate: Made) -> None:
        expression = predicate("P", times)
        note(str(expression))
        del found[:]
        answer = lazy.filter(expression).collect()
        assert answer.equals(frame.filter(expression))
        for one in found:
            rows = answer.select("seq", "subject", pl.col("timestamp").dt.epoch("ns")).rows()
            assert one.empty <= (not rows)
            assert [row for row in rows if not _within(one, *row)] == []
            subjects = sorted(one.subjects or ())
            # The server rejects a set of filters if one of them covers another.
            assert not any(_takes(one, two.replace(">", "x")) for one in subjects for two in subjects if one != two)
            event("bounds" if one != ALL else "none")

    leave_out_none()


subject_filters = st.builds(
    lambda tokens, tail: ".".join([*tokens, *tail]),
    st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=3),
    st.sampled_from([[], [">"]]),
)
# All subjects of up to four tokens.
SUBJECTS = [".".join(tokens) for length in (1, 2, 3, 4) for tokens in itertools.product("ab", repeat=length)]


def _taken(filters: Iterable[str]) -> set[str]:
    return {subject for subject in SUBJECTS if any(_takes(filter, subject) for filter in filters)}


@bounded(400)
@given(*[st.frozensets(subject_filters, min_size=1, max_size=3)] * 2)
def test_overlapping_subject_filters_combine_without_redundancy(one: frozenset[str], two: frozenset[str]) -> None:
    """A union matches the subjects of either set, `within` only those of the second; no filter covers another."""
    either, both = (Bounds(subjects=one) | Bounds(subjects=two)).subjects, within(Bounds(subjects=one), two).subjects
    assert either is not None
    assert both is not None
    of_one, of_two, of_either, of_both = (_taken(filters) for filters in (one, two, either, both))
    assert of_either == of_one | of_two
    assert of_one & of_two <= of_both <= of_two
    for filters in (either, both):
        assert not any(_taken({second}) <= _taken({first}) for first in filters for second in filters - {first})


@pytest.mark.parametrize("latest", [False, True])
def test_scan_with_pushdown_matches_local_filter(nats_url: str, filled: str, latest: bool) -> None:
    filters = [None, f"{filled}.*", [f"{filled}.a", f"{filled}.*.x"], f"{filled}.b"]
    wholes = []
    for subjects in filters:
        lazy = jetarrow.polars.scan(nats_url, filled, schema=SCHEMA, subjects=subjects, latest=latest)
        wholes.append((lazy, lazy.collect()))
    kept = wholes[0][1]["timestamp"].cast(pl.Datetime("us")).to_list()
    times = [(kept[min(number, len(kept) - 1)]).replace(tzinfo=datetime.UTC) for number in range(ROWS)]
    assert len(kept) == (len(TOKENS) if latest else ROWS - 6)
    columns = [name for name in wholes[0][1].columns if name != "headers"]

    @bounded(30 if latest else 60)
    @given(
        st.sampled_from(wholes),
        predicates,
        # The requested fields decide whether a JSON row is malformed, so all of them are selected, or none.
        st.just(columns)
        | st.lists(st.sampled_from(["seq", "subject", "timestamp", "stream"]), min_size=1, unique=True),
        cuts,
        st.sampled_from(["in-memory", "streaming"]),
    )
    def is_as_here(whole: Any, predicate: Made, wanted: list[str], cut: Any, engine: Any) -> None:
        expression = predicate(filled, times)
        note(str(expression))
        lazy, expected = (frame.select(columns).filter(expression).select(wanted) for frame in whole)
        if cut is not None:
            lazy, expected = lazy.slice(*cut), expected.slice(*cut)
        assert lazy.collect(engine=engine).equals(expected)

    is_as_here()
