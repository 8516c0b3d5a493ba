//! Schema resolution: how data of the writer's schema become columns of the reader's.

use super::arrow::without_null;
use super::default::datum;
use super::schema::{AvroSchema, Kind, Logical, RecordField};

/// How a datum of the writer becomes a value of a column.
#[derive(Debug)]
pub enum Plan {
    Null,
    Boolean,
    /// An int or a long, as an integer or a float of the column.
    Int,
    Long,
    Float,
    Double,
    /// Bytes or a string.
    Bytes,
    Fixed(usize),
    /// Bytes, or a fixed of this size.
    Decimal(Option<usize>),
    Duration,
    /// The reader's symbol of each of the writer's, or the writer's name of it.
    Enum(Vec<Result<usize, String>>),
    /// Items, and the minimum size of one.
    Array(Box<Plan>, usize),
    Map(Box<Plan>, usize),
    Record(Vec<Step>, Vec<FieldDefault>),
    /// One plan for each branch, or the reason why the branch does not fit.
    Union(Vec<Result<Plan, String>>),
}

/// A field of the writer's record.
#[derive(Debug)]
pub enum Step {
    /// It is this column.
    Field(usize, Plan),
    Skip(Skip),
}

/// A field that only the reader has: its default as a datum of the reader's schema.
#[derive(Debug)]
pub struct FieldDefault {
    pub column: usize,
    pub datum: Vec<u8>,
    pub plan: Plan,
}

/// How a datum is skipped.
#[derive(Debug)]
pub enum Skip {
    Varint,
    Bytes,
    Fixed(usize),
    /// The minimum size of an item.
    Array(Box<Skip>, usize),
    Map(Box<Skip>, usize),
    Record(Vec<Skip>),
    Union(Vec<Skip>),
}

pub fn plan(writer: &AvroSchema, reader: &AvroSchema, path: &str) -> Result<Plan, String> {
    if let Kind::Union(branches) = &writer.kind {
        let plans: Vec<_> = branches.iter().map(|branch| plan(branch, reader, path)).collect();
        return match plans.iter().all(Result::is_err) {
            true => Err(unfit(writer, reader, path)),
            false => Ok(Plan::Union(plans)),
        };
    }
    let (reader, nullable) = without_null(reader, path)?;
    if matches!(writer.kind, Kind::Null) {
        return if nullable { Ok(Plan::Null) } else { Err(unfit(writer, reader, path)) };
    }
    check_logical(writer, reader, path)?;
    if let Some(Logical::Decimal(..)) = reader.logical {
        return match (&writer.kind, &reader.kind) {
            (Kind::Bytes, Kind::Bytes) => Ok(Plan::Decimal(None)),
            (Kind::Fixed(size), Kind::Fixed(other)) if size == other => Ok(Plan::Decimal(Some(*size))),
            _ => Err(unfit(writer, reader, path)),
        };
    }
    Ok(match (&writer.kind, &reader.kind) {
        (Kind::Boolean, Kind::Boolean) => Plan::Boolean,
        (Kind::Int, Kind::Int | Kind::Long | Kind::Float | Kind::Double) => Plan::Int,
        (Kind::Long, Kind::Long | Kind::Float | Kind::Double) => Plan::Long,
        (Kind::Float, Kind::Float | Kind::Double) => Plan::Float,
        (Kind::Double, Kind::Double) => Plan::Double,
        (Kind::Bytes | Kind::String, Kind::Bytes | Kind::String) => Plan::Bytes,
        (Kind::Fixed(12), Kind::Fixed(12)) if reader.logical == Some(Logical::Duration) => Plan::Duration,
        (Kind::Fixed(size), Kind::Fixed(other)) if size == other && same_name(writer, reader) => Plan::Fixed(*size),
        (Kind::Enum(symbols, _), Kind::Enum(known, default)) if same_name(writer, reader) => {
            let place = |symbol: &String| known.iter().position(|known| known == symbol);
            let default = default.as_ref().and_then(place);
            Plan::Enum(symbols.iter().map(|symbol| place(symbol).or(default).ok_or_else(|| symbol.clone())).collect())
        }
        (Kind::Array(items), Kind::Array(wanted)) => {
            Plan::Array(Box::new(plan(items, wanted, &format!("{path}[]"))?), minimum(items))
        }
        (Kind::Map(values), Kind::Map(wanted)) => {
            Plan::Map(Box::new(plan(values, wanted, &format!("{path}.*"))?), minimum(values))
        }
        (Kind::Record(fields), Kind::Record(wanted)) if same_name(writer, reader) => record(fields, wanted, path)?,
        _ => return Err(unfit(writer, reader, path)),
    })
}

fn record(fields: &[RecordField], wanted: &[RecordField], path: &str) -> Result<Plan, String> {
    let inner = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let mut steps = Vec::with_capacity(fields.len());
    let mut found = vec![false; wanted.len()];
    for field in fields {
        let place = wanted.iter().position(|other| other.name == field.name);
        let place = place.or_else(|| wanted.iter().position(|other| other.aliases.contains(&field.name)));
        match place {
            Some(at) if !found[at] => {
                found[at] = true;
                let path = inner(&wanted[at].name);
                steps.push(Step::Field(at, plan(&field.schema, &wanted[at].schema, &path)?));
            }
            _ => steps.push(Step::Skip(skip(&field.schema))),
        }
    }
    let mut defaults = Vec::new();
    for (column, field) in wanted.iter().enumerate().filter(|(column, _)| !found[*column]) {
        let path = inner(&field.name);
        let Some(default) = &field.default else {
            return Err(format!("column {path:?} is not in the data, and has no default"));
        };
        let mut bytes = Vec::new();
        datum(&field.schema, default, &mut bytes).map_err(|why| format!("default of column {path:?}: {why}"))?;
        defaults.push(FieldDefault { column, datum: bytes, plan: plan(&field.schema, &field.schema, &path)? });
    }
    Ok(Plan::Record(steps, defaults))
}

/// Names match without their namespace, or by an alias of the reader.
fn same_name(writer: &AvroSchema, reader: &AvroSchema) -> bool {
    let short = |name: &str| name.rsplit('.').next().map(str::to_owned);
    short(&writer.name) == short(&reader.name)
        || reader.aliases.iter().any(|alias| *alias == writer.name || short(alias) == short(&writer.name))
}

/// Refuses a change of unit, which the specification does not convert: the values would be wrong.
fn check_logical(writer: &AvroSchema, reader: &AvroSchema, path: &str) -> Result<(), String> {
    match (writer.logical, reader.logical) {
        (Some(one), Some(other)) if one != other => {
            Err(format!("column {path:?} is {one:?} in the data, and {other:?} in the schema"))
        }
        _ => Ok(()),
    }
}

fn unfit(writer: &AvroSchema, reader: &AvroSchema, path: &str) -> String {
    format!("column {path:?} is {} in the data, and {} in the schema", writer.title(), reader.title())
}

pub fn skip(schema: &AvroSchema) -> Skip {
    match &schema.kind {
        Kind::Null => Skip::Fixed(0),
        Kind::Boolean => Skip::Fixed(1),
        Kind::Int | Kind::Long | Kind::Enum(..) => Skip::Varint,
        Kind::Float => Skip::Fixed(4),
        Kind::Double => Skip::Fixed(8),
        Kind::Bytes | Kind::String => Skip::Bytes,
        Kind::Fixed(size) => Skip::Fixed(*size),
        Kind::Array(items) => Skip::Array(Box::new(skip(items)), minimum(items)),
        Kind::Map(values) => Skip::Map(Box::new(skip(values)), minimum(values)),
        Kind::Union(branches) => Skip::Union(branches.iter().map(|branch| skip(branch)).collect()),
        Kind::Record(fields) => Skip::Record(fields.iter().map(|field| skip(&field.schema)).collect()),
    }
}

/// Returns the minimum size of a datum.
fn minimum(schema: &AvroSchema) -> usize {
    match &schema.kind {
        Kind::Null => 0,
        Kind::Float => 4,
        Kind::Double => 8,
        Kind::Fixed(size) => *size,
        Kind::Record(fields) => fields.iter().map(|field| minimum(&field.schema)).fold(0, usize::saturating_add),
        Kind::Union(branches) => 1 + branches.iter().map(|branch| minimum(branch)).min().unwrap_or(0),
        _ => 1,
    }
}
