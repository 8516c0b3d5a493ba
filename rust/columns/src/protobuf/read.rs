//! Messages into columns.

use std::collections::HashMap;

use super::descriptor::{Field, Kind, Message, Presence, Scalar};
use super::wire::{Segment, Stop, Wire, WireType};
use crate::decode::column::{Bytes, ColumnDecoder, Values};
use crate::varint::unzigzag;

type Read<T> = Result<T, Stop>;

/// Values of a field in a payload: a chain of segments.
#[derive(Clone, Copy)]
struct Chain {
    first: u32,
    last: u32,
}

const NONE: u32 = u32::MAX;
const EMPTY: Chain = Chain { first: NONE, last: NONE };

/// One payload that is read.
pub struct Input<'a> {
    bytes: &'a [u8],
    /// Segments with the next one of their field.
    segments: Vec<(Segment, u32)>,
    /// Chains of the fields of all messages that are open.
    chains: Vec<Chain>,
    pub reason: String,
    pub trace: Vec<String>,
}

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { bytes, segments: Vec::new(), chains: Vec::new(), reason: String::new(), trace: Vec::new() }
    }

    #[cold]
    fn fail<T>(&mut self, reason: impl Into<String>) -> Read<T> {
        self.reason = reason.into();
        Err(Stop)
    }

    /// Iterates over the segments of a chain.
    fn next(&self, at: &mut u32) -> Option<Segment> {
        let (segment, next) = *self.segments.get(*at as usize)?;
        *at = next;
        Some(segment)
    }

    fn slice(&self, segment: Segment) -> &'a [u8] {
        self.bytes.get(segment.start as usize..segment.end as usize).unwrap_or_default()
    }
}

/// Reads a whole payload as a row.
pub fn read(message: &Message, row: &mut ColumnDecoder, input: &mut Input<'_>) -> Read<()> {
    let whole = Segment { start: 0, end: u32::try_from(input.bytes.len()).unwrap_or(u32::MAX), wire: WireType::Bytes };
    input.segments.push((whole, NONE));
    merged(message, row, Chain { first: 0, last: 0 }, input)
}

/// Reads one message of several segments: later ones are merged into the first, as the specification requires.
fn merged(message: &Message, column: &mut ColumnDecoder, parts: Chain, input: &mut Input<'_>) -> Read<()> {
    let Values::Struct(members) = &mut column.values else { return input.fail("the column is not a struct") };
    let base = input.chains.len();
    input.chains.resize(base + message.fields.len(), EMPTY);
    let mut at = parts.first;
    while let Some(part) = input.next(&mut at) {
        let mut wire = Wire::new(input.bytes, part);
        while !wire.is_empty() {
            let (number, segment) = match wire.field() {
                Ok(found) => found,
                Err(reason) => return input.fail(reason),
            };
            let Some(place) = message.position(number) else { continue };
            let field = &message.fields[place];
            if !fits(field, segment.wire) {
                continue;
            }
            for other in &field.siblings {
                input.chains[base + other] = EMPTY;
            }
            let new = u32::try_from(input.segments.len()).unwrap_or(NONE);
            let chain = &mut input.chains[base + place];
            if chain.first != NONE && is_single(field) {
                // The last value counts.
                let last = chain.last as usize;
                input.segments[last].0 = segment;
                continue;
            }
            if chain.first == NONE {
                chain.first = new;
            } else {
                let last = chain.last as usize;
                input.segments[last].1 = new;
            }
            chain.last = new;
            input.segments.push((segment, NONE));
        }
    }
    for (place, field) in message.fields.iter().enumerate() {
        let chain = input.chains[base + place];
        if let Err(stop) = value(field, &mut members.columns[place], chain, input) {
            input.trace.push(field.name.clone());
            return Err(stop);
        }
    }
    input.chains.truncate(base);
    column.nulls.append_non_null();
    Ok(())
}

/// True if only the last value counts: neither a repeated field nor a message, which is merged.
fn is_single(field: &Field) -> bool {
    field.presence != Presence::Repeated && matches!(field.kind, Kind::Scalar(_) | Kind::Enum(_))
}

/// True if a value of the field can be in a segment; others are unknown fields.
fn fits(field: &Field, wire: WireType) -> bool {
    let own = match &field.kind {
        Kind::Scalar(scalar) => scalar.wire(),
        Kind::Enum(_) => WireType::Varint,
        _ => WireType::Bytes,
    };
    own == wire || wire == WireType::Bytes && field.presence == Presence::Repeated
}

/// Appends the value of a field.
fn value(field: &Field, column: &mut ColumnDecoder, chain: Chain, input: &mut Input<'_>) -> Read<()> {
    match (&field.kind, field.presence, &mut column.values) {
        (Kind::Map(_, entry), _, Values::Entries(ends, keys, values)) => {
            entries(entry, keys, values, chain, input)?;
            ends.push(end(values.len(), input)?);
            column.nulls.append_non_null();
            Ok(())
        }
        (kind, Presence::Repeated, Values::List(ends, items)) => {
            list(kind, items, chain, input)?;
            ends.push(end(items.len(), input)?);
            column.nulls.append_non_null();
            Ok(())
        }
        (kind, presence, _) if chain.first == NONE => match presence {
            Presence::Optional => {
                column.append_null();
                Ok(())
            }
            Presence::Required => input.fail("missing, and required"),
            _ => default(kind, column, input),
        },
        (kind, _, _) => one(kind, column, chain, input),
    }
}

fn end(length: usize, input: &mut Input<'_>) -> Read<i32> {
    i32::try_from(length).or_else(|_| input.fail("the values of a batch exceed 2 GiB"))
}

fn list(kind: &Kind, items: &mut ColumnDecoder, chain: Chain, input: &mut Input<'_>) -> Read<()> {
    let mut at = chain.first;
    while let Some(segment) = input.next(&mut at) {
        let own = match kind {
            Kind::Scalar(scalar) => scalar.wire(),
            Kind::Enum(_) => WireType::Varint,
            _ => WireType::Bytes,
        };
        if own == segment.wire {
            let alone = u32::try_from(input.segments.len()).unwrap_or(NONE);
            input.segments.push((segment, NONE));
            one(kind, items, Chain { first: alone, last: alone }, input)?;
            continue;
        }
        let mut wire = Wire::new(input.bytes, segment);
        while !wire.is_empty() {
            match wire.value(own) {
                Ok(segment) => primitive(kind, items, segment, input)?,
                Err(reason) => return input.fail(reason),
            }
        }
    }
    Ok(())
}

/// Appends a value that is there.
fn one(kind: &Kind, column: &mut ColumnDecoder, chain: Chain, input: &mut Input<'_>) -> Read<()> {
    match kind {
        Kind::Scalar(_) | Kind::Enum(_) => {
            let mut at = chain.first;
            match input.next(&mut at) {
                Some(segment) => primitive(kind, column, segment, input),
                None => default(kind, column, input),
            }
        }
        Kind::Message(message) => merged(message, column, chain, input),
        Kind::Map(..) => input.fail("a map in a list"),
        Kind::Wrapper(scalar) => match last_of(chain, 1, scalar.wire(), input)? {
            Some(segment) => primitive(&Kind::Scalar(*scalar), column, segment, input),
            None => default(&Kind::Scalar(*scalar), column, input),
        },
        Kind::Timestamp | Kind::Duration => {
            let mut part = |number| match last_of(chain, number, WireType::Varint, input)? {
                Some(segment) => Ok(Wire::new(input.bytes, segment).varint_or_zero().cast_signed()),
                None => Ok(0),
            };
            let (seconds, nanos) = (part(1)?, part(2)? as i32);
            moment(kind, column, seconds, nanos, input)
        }
    }
}

/// Returns the last value of a field in a message of one's own.
fn last_of(chain: Chain, wanted: u32, own: WireType, input: &mut Input<'_>) -> Read<Option<Segment>> {
    let (mut at, mut found) = (chain.first, None);
    while let Some(part) = input.next(&mut at) {
        let mut wire = Wire::new(input.bytes, part);
        while !wire.is_empty() {
            match wire.field() {
                Ok((number, segment)) if number == wanted && segment.wire == own => found = Some(segment),
                Ok(_) => {}
                Err(reason) => return input.fail(reason),
            }
        }
    }
    Ok(found)
}

fn moment(kind: &Kind, column: &mut ColumnDecoder, seconds: i64, nanos: i32, input: &mut Input<'_>) -> Read<()> {
    let valid = match kind {
        Kind::Timestamp => (0..1_000_000_000).contains(&nanos),
        // A merge of two messages can result in such a duration.
        _ if seconds != 0 && nanos != 0 && (seconds < 0) != (nanos < 0) => {
            return input.fail(format!("the parts of a duration have different signs: {seconds} s and {nanos} ns"));
        }
        _ => nanos.abs() < 1_000_000_000,
    };
    let total = i64::try_from(i128::from(seconds) * 1_000_000_000 + i128::from(nanos));
    match (&mut column.values, total) {
        (Values::Time(values, _) | Values::Int(values, ..), Ok(total)) if valid => values.push(total),
        _ => return input.fail(format!("{seconds} s and {nanos} ns are beyond Arrow's nanoseconds")),
    }
    column.nulls.append_non_null();
    Ok(())
}

/// Appends a scalar or an enum.
#[inline]
fn primitive(kind: &Kind, column: &mut ColumnDecoder, segment: Segment, input: &mut Input<'_>) -> Read<()> {
    let bytes = input.slice(segment);
    match (kind, &mut column.values) {
        (Kind::Enum(known), Values::Symbols(codes, _)) => {
            let number = Wire::varint_of(bytes) as i32;
            match known.iter().position(|(_, other)| *other == number) {
                Some(code) => codes.push(code),
                None => return input.fail(format!("{number} is no value of the enum")),
            }
        }
        (Kind::Scalar(scalar), values) => match (scalar, values) {
            (Scalar::Double, Values::Double(values)) => values.push(f64::from_le_bytes(fixed(bytes))),
            (Scalar::Float, Values::Single(values)) => values.push(f32::from_le_bytes(fixed(bytes))),
            (Scalar::Bool, Values::Bool(values)) => values.append(Wire::varint_of(bytes) != 0),
            (Scalar::Bytes, Values::Binary(values)) => push(values, bytes, input)?,
            (Scalar::String, Values::Text(values)) => {
                if std::str::from_utf8(bytes).is_err() {
                    return input.fail("a string is not UTF-8");
                }
                push(values, bytes, input)?;
            }
            (scalar, Values::Int(values, ..)) => values.push(integer(*scalar, bytes)),
            _ => return input.fail("the column is of another type than the field"),
        },
        _ => return input.fail("the column is of another type than the field"),
    }
    column.nulls.append_non_null();
    Ok(())
}

fn push(values: &mut Bytes, bytes: &[u8], input: &mut Input<'_>) -> Read<()> {
    end(values.data.len() + bytes.len(), input)?;
    values.push(bytes);
    Ok(())
}

fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

/// Returns an integer of any encoding; numbers of 32 bits keep their low bits.
fn integer(scalar: Scalar, bytes: &[u8]) -> i64 {
    let varint = || Wire::varint_of(bytes);
    match scalar {
        Scalar::Int32 => i64::from(varint() as i32),
        Scalar::Uint32 => i64::from(varint() as u32),
        Scalar::Sint32 => unzigzag(u64::from(varint() as u32)),
        Scalar::Sint64 => unzigzag(varint()),
        Scalar::Fixed32 => i64::from(u32::from_le_bytes(fixed(bytes))),
        Scalar::Sfixed32 => i64::from(i32::from_le_bytes(fixed(bytes))),
        Scalar::Fixed64 | Scalar::Sfixed64 => i64::from_le_bytes(fixed(bytes)),
        _ => varint().cast_signed(),
    }
}

/// Appends the default of a type: zero, or empty.
fn default(kind: &Kind, column: &mut ColumnDecoder, input: &mut Input<'_>) -> Read<()> {
    match (kind, &mut column.values) {
        (Kind::Message(message), _) => return merged(message, column, EMPTY, input),
        (Kind::Enum(known), Values::Symbols(codes, _)) => {
            codes.push(known.iter().position(|(_, number)| *number == 0).unwrap_or(0));
        }
        (_, Values::Bool(values)) => values.append(false),
        (_, Values::Int(values, ..) | Values::Time(values, _)) => values.push(0),
        (_, Values::Single(values)) => values.push(0.0),
        (_, Values::Double(values)) => values.push(0.0),
        (_, Values::Text(values) | Values::Binary(values)) => values.push(b""),
        _ => return input.fail("the column is of another type than the field"),
    }
    column.nulls.append_non_null();
    Ok(())
}

/// Appends the entries of a map. The last one of entries with the same key counts, at the place of the first.
fn entries(
    entry: &Message,
    keys: &mut ColumnDecoder,
    values: &mut ColumnDecoder,
    chain: Chain,
    input: &mut Input<'_>,
) -> Read<()> {
    let [key, value] = &entry.fields[..] else { return input.fail("a map without entries") };
    let Kind::Scalar(scalar) = key.kind else { return input.fail("a map without keys") };
    let mut order: Vec<(Option<Segment>, Segment)> = Vec::new();
    let mut known: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut at = chain.first;
    while let Some(segment) = input.next(&mut at) {
        let alone = u32::try_from(input.segments.len()).unwrap_or(NONE);
        input.segments.push((segment, NONE));
        let found = last_of(Chain { first: alone, last: alone }, key.number, scalar.wire(), input)?;
        let bytes = found.map_or(&b""[..], |found| input.slice(found));
        let id = match scalar {
            Scalar::String => bytes.to_vec(),
            Scalar::Bool => vec![u8::from(Wire::varint_of(bytes) != 0)],
            scalar => integer(scalar, bytes).to_le_bytes().to_vec(),
        };
        match known.get(&id) {
            Some(place) => order[*place] = (found, segment),
            None => {
                known.insert(id, order.len());
                order.push((found, segment));
            }
        }
    }
    for (found, segment) in order {
        match found {
            Some(found) => primitive(&key.kind, keys, found, input)?,
            None => default(&key.kind, keys, input)?,
        }
        // The values of one entry are those of a message with this field alone.
        let base = u32::try_from(input.segments.len()).unwrap_or(NONE);
        let mut parts = EMPTY;
        let mut wire = Wire::new(input.bytes, segment);
        while !wire.is_empty() {
            match wire.field() {
                Ok((number, segment)) if number == value.number && fits(value, segment.wire) => {
                    let new = u32::try_from(input.segments.len()).unwrap_or(NONE);
                    if parts.first == NONE || is_single(value) {
                        parts = Chain { first: new, last: new };
                    } else {
                        input.segments[parts.last as usize].1 = new;
                        parts.last = new;
                    }
                    input.segments.push((segment, NONE));
                }
                Ok(_) => {}
                Err(reason) => return input.fail(reason),
            }
        }
        match parts.first {
            NONE => match &value.kind {
                // An absent message is an empty one.
                Kind::Timestamp | Kind::Duration => moment(&value.kind, values, 0, 0, input)?,
                Kind::Wrapper(scalar) => default(&Kind::Scalar(*scalar), values, input)?,
                kind => default(kind, values, input)?,
            },
            _ => one(&value.kind, values, parts, input)?,
        }
        input.segments.truncate(base as usize);
    }
    Ok(())
}
