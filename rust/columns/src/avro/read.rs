//! Data into columns.

use std::collections::HashSet;

use arrow_array::types::IntervalMonthDayNano;
use arrow_buffer::i256;

use super::input::{Input, Read};
use super::plan::{Plan, Skip, Step};
use crate::decode::column::{Bytes, ColumnDecoder, Values};

/// Appends one value. After an error the column can hold a part of it, until it is truncated.
#[inline]
pub fn read(plan: &Plan, column: &mut ColumnDecoder, input: &mut Input<'_>) -> Read<()> {
    match (plan, &mut column.values) {
        (Plan::Union(branches), _) => {
            let branch = input.index(branches.len(), "branch of a union")?;
            return match &branches[branch] {
                Ok(plan) => read(plan, column, input),
                Err(reason) => input.fail(reason.clone()),
            };
        }
        (Plan::Null, _) => {
            if !column.field.is_nullable() {
                return input.fail("null, and the schema says not nullable");
            }
            column.append_null();
            return Ok(());
        }
        (Plan::Boolean, Values::Bool(values)) => values.append(input.boolean()?),
        (Plan::Int, values) => {
            let value = input.int()?;
            integer(values, value, input)?;
        }
        (Plan::Long, values) => {
            let value = input.long()?;
            integer(values, value, input)?;
        }
        (Plan::Float, Values::Single(values)) => values.push(f32::from_le_bytes(input.array()?)),
        (Plan::Float, Values::Double(values)) => values.push(f32::from_le_bytes(input.array()?).into()),
        (Plan::Double, Values::Double(values)) => values.push(f64::from_le_bytes(input.array()?)),
        (Plan::Bytes, Values::Binary(values)) => {
            let bytes = input.bytes()?;
            push(values, bytes, input)?;
        }
        (Plan::Bytes, Values::Text(values)) => text(values, input)?,
        (Plan::Fixed(size), Values::Binary(values)) => values.push(input.take(*size)?),
        (Plan::Decimal(size), values) => decimal(values, *size, input)?,
        (Plan::Duration, Values::Spans(values)) => values.push(duration(input)?),
        (Plan::Enum(symbols), Values::Symbols(codes, _)) => match &symbols[input.index(symbols.len(), "symbol")?] {
            Ok(code) => codes.push(*code),
            Err(symbol) => return input.fail(format!("symbol {symbol} is not in the schema, which has no default")),
        },
        (Plan::Array(plan, minimum), Values::List(ends, items)) => {
            let begin = items.len();
            loop {
                let count = input.block(*minimum, items.len() - begin)?;
                if count == 0 {
                    break;
                }
                for _ in 0..count {
                    if let Err(stop) = read(plan, items, input) {
                        input.trace.push("[]".into());
                        return Err(stop);
                    }
                }
            }
            ends.push(end(items.len(), input)?);
        }
        (Plan::Map(plan, minimum), Values::Map(ends, keys, items)) => {
            let begin = items.len();
            loop {
                // A key has a length at least.
                let count = input.block(*minimum + 1, 0)?;
                if count == 0 {
                    break;
                }
                for _ in 0..count {
                    text(keys, input)?;
                    read(plan, items, input)?;
                }
            }
            let distinct: HashSet<_> = (begin..items.len()).map(|at| keys.get(at)).collect();
            if distinct.len() < items.len() - begin {
                return input.fail("a map has a key twice");
            }
            ends.push(end(items.len(), input)?);
        }
        (Plan::Record(steps, defaults), Values::Struct(members)) => {
            for step in steps {
                match step {
                    Step::Field(at, plan) => {
                        let column = &mut members.columns[*at];
                        if let Err(stop) = read(plan, column, input) {
                            input.trace.push(members.fields[*at].name().clone());
                            return Err(stop);
                        }
                    }
                    Step::Skip(skip) => pass(skip, input)?,
                }
            }
            for default in defaults {
                read(&default.plan, &mut members.columns[default.column], &mut Input::new(&default.datum))?;
            }
        }
        _ => return input.fail("the column is of another type than the plan"),
    }
    column.nulls.append_non_null();
    Ok(())
}

fn integer(values: &mut Values, value: i64, input: &mut Input<'_>) -> Read<()> {
    match values {
        Values::Int(values, ..) | Values::Date(values) | Values::Time(values, _) => values.push(value),
        Values::Clock(values, second) => {
            if !(0..86_400 * *second).contains(&value) {
                return input.fail(format!("{value} is not within a day"));
            }
            values.push(value);
        }
        Values::Single(values) => values.push(value as f32),
        Values::Double(values) => values.push(value as f64),
        _ => return input.fail("the column is of another type than the plan"),
    }
    Ok(())
}

fn text(values: &mut Bytes, input: &mut Input<'_>) -> Read<()> {
    let bytes = input.bytes()?;
    if std::str::from_utf8(bytes).is_err() {
        return input.fail("a string is not UTF-8");
    }
    push(values, bytes, input)
}

/// Defaults can make the values of a batch longer than its payloads.
#[inline]
fn push(values: &mut Bytes, bytes: &[u8], input: &mut Input<'_>) -> Read<()> {
    end(values.data.len() + bytes.len(), input)?;
    values.push(bytes);
    Ok(())
}

/// Returns the end of a value in Arrow's offsets of 32 bits.
#[inline]
fn end(length: usize, input: &mut Input<'_>) -> Read<i32> {
    i32::try_from(length).or_else(|_| input.fail("the values of a batch exceed 2 GiB"))
}

/// Reads an unscaled value: two's complement, the highest byte first.
fn decimal(values: &mut Values, size: Option<usize>, input: &mut Input<'_>) -> Read<()> {
    let bytes = match size {
        Some(size) => input.take(size)?,
        None => input.bytes()?,
    };
    let sign = if bytes.first().is_some_and(|first| *first >= 0x80) { 0xff } else { 0 };
    let extra = bytes.len().saturating_sub(32);
    let mut wide = [sign; 32];
    wide[32 - (bytes.len() - extra)..].copy_from_slice(&bytes[extra..]);
    let (value, lost) = (i256::from_be_bytes(wide), bytes[..extra].iter().any(|byte| *byte != sign));
    let (precision, small) = match values {
        Values::Decimal(_, precision, _) => (*precision, value.to_i128()),
        Values::Wide(_, precision, _) => (*precision, Some(0)),
        _ => return input.fail("the column is of another type than the plan"),
    };
    let limit = i256::from_i128(10).checked_pow(precision.into()).unwrap_or(i256::MAX);
    let fits = !lost && (extra == 0 || (wide[0] ^ sign) < 0x80) && value < limit && value > -limit;
    match (values, small) {
        (Values::Decimal(values, ..), Some(small)) if fits => values.push(small),
        (Values::Wide(values, ..), _) if fits => values.push(value),
        _ => return input.fail(format!("a decimal has more than {precision} digits")),
    }
    Ok(())
}

/// Reads months, days and milliseconds.
fn duration(input: &mut Input<'_>) -> Read<IntervalMonthDayNano> {
    let mut part = || Ok(u32::from_le_bytes(input.array()?));
    let (months, days, millis) = (part()?, part()?, part()?);
    match (i32::try_from(months), i32::try_from(days)) {
        (Ok(months), Ok(days)) => Ok(IntervalMonthDayNano::new(months, days, i64::from(millis) * 1_000_000)),
        _ => input.fail("a duration has more than 2^31 months or days"),
    }
}

/// Skips a datum.
fn pass(skip: &Skip, input: &mut Input<'_>) -> Read<()> {
    match skip {
        Skip::Varint => input.long().map(drop),
        Skip::Bytes => input.bytes().map(drop),
        Skip::Fixed(size) => input.take(*size).map(drop),
        Skip::Record(fields) => fields.iter().try_for_each(|field| pass(field, input)),
        Skip::Union(branches) => {
            let branch = input.index(branches.len(), "branch of a union")?;
            pass(&branches[branch], input)
        }
        Skip::Array(items, minimum) => blocks(*minimum, input, |input| pass(items, input)),
        Skip::Map(values, minimum) => blocks(*minimum + 1, input, |input| {
            input.bytes()?;
            pass(values, input)
        }),
    }
}

fn blocks(minimum: usize, input: &mut Input<'_>, mut item: impl FnMut(&mut Input<'_>) -> Read<()>) -> Read<()> {
    let mut passed = 0;
    loop {
        let count = input.block(minimum, passed)?;
        if count == 0 {
            return Ok(());
        }
        passed += count;
        for _ in 0..count {
            item(input)?;
        }
    }
}
