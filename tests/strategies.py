"""Settings that make Hypothesis tests bounded and deterministic, and strategies for tables of any Arrow types."""

from __future__ import annotations

import decimal
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

# Hypothesis also draws constants of the modules that are loaded. A worker that has run other tests before would draw
# other examples than the next run does.
if "_get_local_constants" in vars(providers):
    vars(providers)["_get_local_constants"] = lambda: providers._local_constants

# An Arrow type, and a strategy for its values as Python objects that `pa.array` accepts.
Kind = tuple[pa.DataType, st.SearchStrategy[Any]]
UNITS = ("s", "ms", "us", "ns")
ZONES = (None, "UTC", "Europe/Berlin", "+05:30", "America/St_Johns")


def bounded(examples: int) -> settings:
    """Settings for half of this number of examples, the same in every run, without a deadline or a database.

    With `JETARROW_EXAMPLES`, which `make test-slow` sets to 1, all of them times that number.
    """
    return settings(
        max_examples=math.ceil(examples * float(os.environ.get("JETARROW_EXAMPLES", "0.5"))),
        derandomize=True,
        deadline=None,
        database=None,
        # A busy machine is no fault of a test; a fixture's stream is shared by all examples on purpose.
        suppress_health_check=list(HealthCheck),
    )


# Any text that UTF-8 can encode. Neighbours of the surrogates and characters that JSON escapes are more frequent.
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"])
    | st.sampled_from('"\\/\b\f\n\r\t\0\x1f\x7f\ud7ff\ue000\uffff\ufeff\u2028\u2029\U00010000\U0010ffff'),
    max_size=6,
)

# Arrow's C interface truncates a name at a zero, because its strings are zero-terminated.
NAMES = TEXTS.map(lambda text: text.replace("\0", "0"))


def whole(bits: int, signed: bool = True) -> st.SearchStrategy[int]:
    """Integers of this number of bits."""
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else st.integers(0, 2**bits - 1)


def floats(width: Any) -> st.SearchStrategy[float]:
    """Floats that JSON can represent."""
    return st.floats(width=width, allow_nan=False, allow_infinity=False)


@st.composite
def decimals(draw: st.DrawFn) -> Kind:
    """Decimals of every precision and scale."""
    make, most = draw(st.sampled_from([(pa.decimal128, 38), (pa.decimal256, 76)]))
    precision = draw(st.integers(1, most))
    scale = draw(st.integers(-3, precision))

    def value(number: int) -> decimal.Decimal:
        # The constructor, unlike arithmetic, is not limited by a precision.
        return decimal.Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))

    return make(precision, scale), st.integers(1 - 10**precision, 10**precision - 1).map(value)


def timestamps() -> st.SearchStrategy[Kind]:
    """Timestamps of every unit, over the whole range of 64 bits."""
    kinds = st.builds(pa.timestamp, st.sampled_from(UNITS), st.sampled_from(ZONES))
    # Years that ISO 8601 can represent are more frequent.
    near = {"s": 10**9, "ms": 10**12, "us": 10**15, "ns": 10**18}
    return kinds.map(lambda kind: (kind, whole(64) | st.integers(-9 * near[kind.unit], 9 * near[kind.unit])))


# Types that a read of JSON restores, see docs/tables.md.
JSON_SCALARS: st.SearchStrategy[Kind] = st.one_of(
    st.sampled_from(
        [
            (pa.null(), st.none()),
            (pa.bool_(), st.booleans()),
            *((getattr(pa, f"int{bits}")(), whole(bits)) for bits in (8, 16, 32, 64)),
            *((getattr(pa, f"uint{bits}")(), whole(bits, signed=False)) for bits in (8, 16, 32, 64)),
            *((getattr(pa, f"float{bits}")(), floats(bits)) for bits in (16, 32, 64)),
            *((kind, TEXTS) for kind in (pa.string(), pa.large_string(), pa.string_view())),
            *((kind, st.binary(max_size=6)) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
            # Days of the years 0 to 9999.
            (pa.date32(), st.integers(-719_528, 2_932_896)),
            (pa.date64(), st.integers(-719_528, 2_932_896).map(lambda days: days * 86_400_000)),
            (pa.time32("s"), st.integers(0, 86_399)),
            (pa.time32("ms"), st.integers(0, 86_399_999)),
            (pa.time64("us"), st.integers(0, 86_400 * 10**6 - 1)),
            (pa.time64("ns"), st.integers(0, 86_400 * 10**9 - 1)),
            *((pa.duration(unit), whole(64)) for unit in UNITS),
            (pa.binary(3), st.binary(min_size=3, max_size=3)),
        ]
    ),
    decimals(),
    timestamps(),
)


# Columns only: in a null struct, pyarrow has them point beyond their values.
DICTIONARIES: st.SearchStrategy[Kind] = st.sampled_from(
    [
        (pa.dictionary(pa.int32(), pa.string()), TEXTS),
        (pa.dictionary(pa.int8(), pa.int64()), whole(64)),
        (pa.dictionary(pa.uint16(), pa.binary()), st.binary(max_size=3)),
    ]
)
# Types and values that only Arrow messages can contain.
ARROW_SCALARS: st.SearchStrategy[Kind] = st.sampled_from(
    [
        (pa.float64(), st.floats(allow_nan=False)),
        (pa.date32(), whole(32)),
        (pa.month_day_nano_interval(), st.tuples(whole(32), whole(32), whole(64)).map(pa.MonthDayNano)),
    ]
)


def _or_null(values: st.SearchStrategy[Any], nullable: bool) -> st.SearchStrategy[Any]:
    return st.none() | values if nullable else values


@st.composite
def _nested(draw: st.DrawFn, kinds: st.SearchStrategy[Kind]) -> Kind:
    """A list, a struct or a map of the given kinds."""
    shape = draw(st.sampled_from(["list", "large list", "fixed list", "struct", "map"]))
    if shape == "struct":
        names = draw(st.lists(NAMES, max_size=3, unique=True))
        fields, values = [], {}
        for name in names:
            (kind, inner), nullable = draw(kinds), draw(st.booleans())
            nullable |= pa.types.is_null(kind)
            fields.append(pa.field(name, kind, nullable=nullable))
            values[name] = _or_null(inner, nullable)
        return pa.struct(fields), st.fixed_dictionaries(values)
    kind, inner = draw(kinds)
    inner = _or_null(inner, True)
    if shape == "map":
        keys = draw(st.sampled_from([pa.string(), pa.large_string()]))
        entries = st.lists(st.tuples(TEXTS, inner), max_size=3, unique_by=lambda entry: entry[0])
        return pa.map_(keys, kind), entries
    if shape == "fixed list":
        return pa.list_(kind, 2), st.lists(inner, min_size=2, max_size=2)
    make: Callable[[pa.DataType], pa.DataType] = pa.list_ if shape == "list" else pa.large_list
    return make(kind), st.lists(inner, max_size=3)


def kinds(scalars: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    """The scalars, and types nested from them."""
    return st.recursive(scalars, _nested, max_leaves=4)


@st.composite
def tables(draw: st.DrawFn, kinds: st.SearchStrategy[Kind], names: Sequence[str] | None = None) -> pa.Table:
    """A table of one to four columns and at most six rows, in one piece or cut anywhere."""
    chosen = list(names) if names else draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    rows = draw(st.integers(0, 6))
    fields, arrays = [], []
    for name in chosen:
        (kind, values), nullable = draw(kinds), draw(st.booleans())
        nullable |= pa.types.is_null(kind)
        fields.append(pa.field(name, kind, nullable=nullable))
        arrays.append(pa.array(draw(st.lists(_or_null(values, nullable), min_size=rows, max_size=rows)), kind))
    table = pa.table(arrays, schema=pa.schema(fields))
    cut = draw(st.integers(0, rows))
    return table if cut == 0 else pa.concat_tables([table.slice(0, cut), table.slice(cut)])
