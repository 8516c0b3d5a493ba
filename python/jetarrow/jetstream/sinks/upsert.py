"""Tables with keys: the changes of a commit, reduced to the last one of each key.

Independent of the table format: a target gets one row for each changed key, and a column that marks deletions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.errors import SinkError, SinkSchemaError
from jetarrow.jetstream.kv.names import KV_DEL, KV_MARKER_REASON, KV_OP, KV_PURGE
from jetarrow.jetstream.literals import OnRollback, SinkDeletes, SinkMerge, check_literal
from jetarrow.jetstream.models import DiscardPolicy

if TYPE_CHECKING:
    import pyarrow

    from jetarrow.jetstream.models import StreamConfig

# Column of a commit's rows: whether the row deletes its key.
DELETED = "_jetarrow_deleted"
# Columns that differ in each message, or are the same in all.
_NO_KEYS = ("stream", "seq", "timestamp", "headers")

# Returns the key columns, `subject` and `seq` of the stream's rows in the table that have one of the subjects.
FindRows = Callable[["pyarrow.Array"], "pyarrow.Table"]


@dataclass(frozen=True)
class Upsert:
    """Options of a table with keys.

    Attributes:
        key: Key columns; the stream's name is always part of the key.
        deletes: Whether deletion markers delete rows.
    """

    key: tuple[str, ...]
    deletes: SinkDeletes

    def __str__(self) -> str:
        return f"merge='upsert', key={list(self.key)}, deletes={self.deletes!r}"

    @property
    def by_subject(self) -> bool:
        """Whether a message's subject is its key."""
        return self.key == ("subject",)

    def as_dict(self) -> dict[str, Any]:
        """Return the options for the record of a commit."""
        return {"mode": "upsert", "key": list(self.key), "deletes": self.deletes}


def upsert_of(merge: SinkMerge, key: str | Sequence[str] | None, deletes: SinkDeletes) -> Upsert | None:
    """Return checked options of a table with keys; None for a table without.

    Raises:
        ValueError: An option is not valid, or the options exclude each other.
    """
    check_literal("merge", merge, SinkMerge)
    check_literal("deletes", deletes, SinkDeletes)
    names = (key,) if isinstance(key, str) else tuple(key or ())
    if merge == "append":
        if names or deletes != "markers":
            raise ValueError("key and deletes are options of tables with keys: give merge='upsert' too")
        return None
    if not names:
        raise ValueError("merge='upsert' needs the key of the table: give key='subject', or the names of columns")
    if len(set(names)) < len(names):
        raise ValueError(f"key has a column twice: {', '.join(names)}")
    return Upsert(names, deletes)


def check_upsert(*, durable: str | None, on_rollback: OnRollback) -> None:
    """Check the other options of a sink that writes a table with keys.

    Raises:
        ValueError: An option is not valid with `merge="upsert"`.
    """
    if durable is not None:
        raise ValueError(
            "merge='upsert' and durable exclude each other: a redelivered message would restore a row that a later"
            " marker has deleted; read the stream without durable"
        )
    if on_rollback == "continue":
        raise ValueError(
            "merge='upsert' and on_rollback='continue' exclude each other: former values of rows that the stream lost"
            " are not in the table; give on_rollback='earliest', which writes the table again"
        )


def check_restart(record: dict[str, Any], upsert: Upsert | None, target: str) -> None:
    """Check that a sink resumes with the options of its first start.

    Args:
        record: Record of its last commit.
        upsert: Options of this start.
        target: The table, for the message.

    Raises:
        SinkError: They differ.
    """
    before = record.get("merge")
    if before == (None if upsert is None else upsert.as_dict()):
        return
    old = "merge='append'" if before is None else str(Upsert(tuple(before["key"]), before["deletes"]))
    new = "merge='append'" if upsert is None else str(upsert)
    raise SinkError(
        f"could not resume {target}: its rows were written with {old}, and this sink has {new}; give the former"
        " options, or another table"
    )


def check_key(schema: pyarrow.Schema, key: Sequence[str], target: str = "the table") -> None:
    """Check that columns can be a key.

    Args:
        schema: Schema of the rows.
        key: Names of columns.
        target: The table, for the message.

    Raises:
        SinkSchemaError: A column does not exist, or has a type whose values have no exact equality in tables.
    """
    types = needs_pyarrow("a sink").types
    scalars = (
        types.is_boolean,
        types.is_signed_integer,
        types.is_decimal,
        types.is_string,
        types.is_large_string,
        types.is_binary,
        types.is_large_binary,
        types.is_fixed_size_binary,
        types.is_date,
    )
    for name in key:
        if name not in schema.names or name in _NO_KEYS:
            names = ", ".join(one for one in schema.names if one not in _NO_KEYS)
            raise SinkSchemaError(f"could not use {name!r} as a key of {target}: the key columns can be {names}")
        kind = schema.field(name).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        exact_time = types.is_timestamp(kind) and kind.unit != "ns"
        if not exact_time and not any(fits(kind) for fits in scalars):
            raise SinkSchemaError(
                f"could not use column {name!r} of type {kind} as a key of {target}: use text, bytes, signed integers,"
                " booleans, decimals, dates, or timestamps of at most microseconds"
            )


def deletion_markers(headers: pyarrow.Array) -> pyarrow.Array:
    """Return which rows are deletion markers of a key-value bucket or of the server.

    Args:
        headers: The column of a read.
    """
    import pyarrow.compute as pc

    operation = _last_header(headers, KV_OP)
    deleted = pc.fill_null(pc.or_(pc.equal(operation, KV_DEL), pc.equal(operation, KV_PURGE)), False)
    # As in key-value buckets: the header of a client decides before that of the server.
    expired = pc.and_(operation.is_null(), _last_header(headers, KV_MARKER_REASON).is_valid())
    return pc.or_(deleted, expired)


def _last_header(headers: pyarrow.Array, name: str) -> pyarrow.Array:
    """Return the last value of a header in each row; null if there is none."""
    import pyarrow.compute as pc

    pa = needs_pyarrow("a sink")
    values = pc.map_lookup(headers, name, "last")
    has_value = pc.fill_null(pc.greater(pc.list_value_length(values), 0), False)
    if not has_value.true_count:
        return pa.nulls(len(headers), pa.string())
    lists = values.filter(has_value)
    last = lists.values.take(pc.subtract(lists.offsets.slice(1), 1))
    return pc.replace_with_mask(pa.nulls(len(headers), last.type), has_value, last)


def invalid_keys(rows: pyarrow.RecordBatch, key: Sequence[str], partition_by: Sequence[str]) -> dict[int, str]:
    """Return the rows that have no key, with the reason.

    Args:
        rows: The rows; deletions have no key columns.
        key: Names of the key columns.
        partition_by: Partition columns. Tables read an empty text in them as null.
    """
    import pyarrow.compute as pc

    found: dict[int, str] = {}
    alive = pc.invert(rows.column(DELETED))
    for name in key:
        column = rows.column(name)
        missing = column.is_null()
        if name in partition_by and column.type in ("string", "large_string"):
            missing = pc.or_(missing, pc.fill_null(pc.equal(column, ""), False))
        for row in pc.indices_nonzero(pc.and_(missing, alive)).to_pylist():
            reason = "null" if not column[row].is_valid else "empty, which is null as a partition"
            found.setdefault(row, f"key column {name!r} is {reason}")
    return found


def changes(rows: pyarrow.Table, upsert: Upsert, find_rows: FindRows) -> pyarrow.Table:
    """Return the last change of each key, in the columns of `rows`.

    Rows are compared by their sequences, in any order. A deletion has null in the columns that it does not know.

    Args:
        rows: Rows of one stream with the column `DELETED`, each sequence once.
        upsert: The options.
        find_rows: Finds rows of the table by their subjects.
    """
    pa = needs_pyarrow("a sink")
    if upsert.by_subject:
        return _last(rows, upsert.key)
    import pyarrow.compute as pc

    is_marker = rows[DELETED]
    written = _last(rows.filter(pc.invert(is_marker)), upsert.key)
    if not pc.any(is_marker).as_py():
        return written
    markers = rows.filter(is_marker).group_by("subject").aggregate([("seq", "max")])
    is_deleted = pc.fill_null(pc.greater(_marker_seqs(written, markers), written["seq"]), False)
    written = written.set_column(written.schema.get_field_index(DELETED), DELETED, is_deleted)
    found = find_rows(markers["subject"].combine_chunks())
    return pa.concat_tables([written, _deletions(written, found, markers, stream=rows["stream"][0], key=upsert.key)])


def _last(rows: pyarrow.Table, key: Sequence[str]) -> pyarrow.Table:
    """Return the row with the highest sequence of each key."""
    import pyarrow.compute as pc

    last = rows.group_by(list(key)).aggregate([("seq", "max")])["seq_max"].combine_chunks()
    return rows if len(last) == rows.num_rows else rows.filter(pc.is_in(rows["seq"], value_set=last))


def _marker_seqs(rows: pyarrow.Table, markers: pyarrow.Table) -> pyarrow.ChunkedArray:
    """Return the sequence of the marker of each row's subject; null without one."""
    import pyarrow.compute as pc

    return markers["seq_max"].take(pc.index_in(rows["subject"], value_set=markers["subject"].combine_chunks()))


def _deletions(
    written: pyarrow.Table, found: pyarrow.Table, markers: pyarrow.Table, *, stream: Any, key: Sequence[str]
) -> pyarrow.Table:
    """Return deletions of the rows of a table that markers delete by subject.

    Args:
        written: The last row of each key in the commit. The table's rows of these keys are replaced in any case.
        found: Rows of the table with the markers' subjects.
        markers: Subjects of the markers, and the last sequence of each.
        stream: Name of the stream.
        key: Names of the key columns.
    """
    import pyarrow.compute as pc

    pa = needs_pyarrow("a sink")
    seqs = _marker_seqs(found, markers)
    is_older = pc.fill_null(pc.greater(seqs, found["seq"]), False)
    types = pa.schema([written.schema.field(name) for name in key])
    keys = found.select(list(key)).cast(types).append_column("_seq", seqs).filter(is_older)
    # A foreign writer may have stored a key twice.
    keys = keys.group_by(list(key)).aggregate([("_seq", "max")])
    keys = keys.join(written.select(list(key)), keys=list(key), join_type="left anti")
    known = {name: keys[name] for name in key}
    known |= {"seq": keys["_seq_max"], DELETED: pa.repeat(True, len(keys)), "stream": pa.repeat(stream, len(keys))}
    columns = [known.get(field.name, pa.nulls(len(keys), field.type)) for field in written.schema]
    return pa.table(columns, schema=written.schema)


def is_compacted(config: StreamConfig) -> bool:
    """Return whether a stream loses messages only to later ones of the same subject, as key-value buckets do.

    Args:
        config: The stream's configuration.
    """
    is_bounded = (config.max_msgs or -1) > 0 or (config.max_bytes or -1) > 0
    drops_oldest = is_bounded and config.discard == DiscardPolicy.OLD
    expires_unmarked = bool(config.max_age) and not config.subject_delete_marker_ttl
    return config.max_msgs_per_subject > 0 and not drops_oldest and not expires_unmarked
