//! JSON values into a column.

use arrow_schema::DataType;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::column::{Bytes, ColumnDecoder, TimeFormat, Values, fixed_length};
use super::json::{self, Json, JsonStep, Parsed, Reason};
use super::lenient::compact;
use super::{number, object};

const NANOS: i128 = 1_000_000_000;
/// Accepts base64 without padding, because many encoders omit it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

impl ColumnDecoder {
    /// Parses one value. After an error the column can hold a part of it, until it is truncated.
    #[inline]
    pub fn parse(&mut self, json: &mut Json<'_>) -> Parsed<()> {
        let start = json.at;
        if json.peek() == b'n' {
            json.null()?;
            if !self.field.is_nullable() {
                return json.fail(Reason::Null, start);
            }
            self.append_null();
            return Ok(());
        }
        match &mut self.values {
            Values::Null | Values::Symbols(..) | Values::Spans(_) | Values::Entries(..) => {
                return json.fail(Reason::Expected("null"), start);
            }
            Values::Bool(values) => values.append(json.boolean()?),
            Values::Int(values, min, max) => values.push(integer(json, *min, *max, "an integer")?),
            Values::Single(values) => values.push(single(json, *self.field.data_type() == DataType::Float32)?),
            Values::Double(values) => values.push(double(json)?),
            Values::Decimal(values, precision, scale) => values.push(decimal(json, *precision, *scale)?.1),
            Values::Wide(values, precision, scale) => values.push(number::wide(decimal(json, *precision, *scale)?)),
            Values::Text(values) => text(values, json)?,
            Values::Binary(values) => {
                let plain = json.string()?;
                let begin = values.data.len();
                let decoded = BASE64.decode_vec(plain.unwrap_or(&json.unescaped), &mut values.data);
                let length = values.data.len() - begin;
                if decoded.is_err() || fixed_length(self.field.data_type()).is_some_and(|fixed| fixed != length) {
                    return json.fail(Reason::Unfit, start);
                }
                values.end();
            }
            Values::Date(values) => values.push(date(json)?),
            Values::Clock(values, second) => values.push(clock(json, *second)?),
            Values::Time(values, format) => values.push(time(json, format)?),
            Values::List(ends, items) => {
                let begin = items.len();
                let mut more = !json.open(b'[', b']', "an array")?;
                while more {
                    if let Err(stop) = items.parse(json) {
                        json.trace.push(JsonStep::Item(items.field.clone()));
                        return Err(stop);
                    }
                    more = json.more(b']')?;
                }
                if fixed_length(self.field.data_type()).is_some_and(|fixed| fixed != items.len() - begin) {
                    return json.fail(Reason::Unfit, start);
                }
                ends.push(items.len() as i32);
            }
            Values::Struct(members) => members.parse(self.nulls.len(), json)?,
            Values::Map(ends, keys, items) => {
                let begin = items.len();
                object::map(keys, items, json)?;
                let sorted = matches!(self.field.data_type(), DataType::Map(_, true));
                if sorted && !(begin + 1..items.len()).all(|at| keys.get(at - 1) < keys.get(at)) {
                    return json.fail(Reason::Unfit, start);
                }
                ends.push(items.len() as i32);
            }
            Values::Dictionary(dictionary) => dictionary.parse(json)?,
        }
        self.nulls.append_non_null();
        Ok(())
    }
}

#[inline]
fn single(json: &mut Json<'_>, is_wide: bool) -> Parsed<f32> {
    let start = json.at;
    if let Some(value) = json.non_finite() {
        return Ok(value as f32);
    }
    match json.number("a number")?.single() {
        // The largest float16 is below the largest float32.
        Some(value) if is_wide || value.abs() < 65_520.0 => Ok(value),
        _ => json.fail(Reason::Unfit, start),
    }
}

/// Parses a time of day. Fractions below the unit are cut.
fn clock(json: &mut Json<'_>, second: i64) -> Parsed<i64> {
    let start = json.at;
    let plain = json.string()?;
    match number::clock(plain.unwrap_or(&json.unescaped)) {
        Some((seconds, nanos, [])) => Ok(seconds * second + nanos / (1_000_000_000 / second)),
        _ => json.fail(Reason::Unfit, start),
    }
}

#[inline]
fn date(json: &mut Json<'_>) -> Parsed<i64> {
    let start = json.at;
    let plain = json.string()?;
    match number::days(plain.unwrap_or(&json.unescaped)) {
        Some(days) => Ok(days),
        None => json.fail(Reason::Unfit, start),
    }
}

#[inline]
fn integer(json: &mut Json<'_>, min: i128, max: i128, expected: &'static str) -> Parsed<i64> {
    let start = json.at;
    match json.number(expected)?.integer() {
        Some(value) if min <= value && value <= max => Ok(value as i64),
        _ => json.fail(Reason::Unfit, start),
    }
}

/// Parses a number, or a number in a string, because many writers have doubles only and send exact decimals as strings.
fn decimal(json: &mut Json<'_>, precision: u8, scale: i8) -> Parsed<(i128, i128)> {
    let start = json.at;
    let value = if json.peek() == b'"' {
        let plain = json.string()?;
        json::number(plain.unwrap_or(&json.unescaped)).and_then(|number| number.scaled(scale, precision, true))
    } else {
        json.number("a number or a number in a string")?.scaled(scale, precision, true)
    };
    match value {
        Some(value) => Ok(value),
        None => json.fail(Reason::Unfit, start),
    }
}

/// Parses a text, or a number since 1970. Fractions below the unit are cut.
fn time(json: &mut Json<'_>, format: &TimeFormat) -> Parsed<i64> {
    let start = json.at;
    let (seconds, nanos) = if json.peek() == b'"' {
        let plain = json.string()?;
        let moment = number::moment(plain.unwrap_or(&json.unescaped)).and_then(|moment| {
            let seconds = match (&format.zone, moment.offset) {
                (Some(zone), None) => zone.to_utc(moment.seconds)?,
                (None, Some(_)) => return None,
                _ => moment.seconds,
            };
            Some((i128::from(seconds), moment.nanos))
        });
        let Some(moment) = moment else { return json.fail(Reason::Unfit, start) };
        moment
    } else {
        let Some(per_second) = format.numbers else {
            return json.fail(Reason::Expected("a timestamp in a string, or a number whose unit is given"), start);
        };
        let scale = 9 - per_second.ilog10() as i8;
        let Some((0, nanos)) = json.number("a timestamp in a string, or a number")?.scaled(scale, 38, true) else {
            return json.fail(Reason::Unfit, start);
        };
        (nanos.div_euclid(NANOS), nanos.rem_euclid(NANOS) as i64)
    };
    let units = seconds * i128::from(format.second) + i128::from(nanos / (1_000_000_000 / format.second));
    match i64::try_from(units) {
        Ok(units) => Ok(units),
        Err(_) => json.fail(Reason::Unfit, start),
    }
}

/// Parses a string. Leniently, any other value is its JSON text.
#[inline]
fn text(values: &mut Bytes, json: &mut Json<'_>) -> Parsed<()> {
    if json.peek() != b'"' && json.leniency.like_spark {
        let start = json.at;
        json.skip()?;
        compact(json.since(start), &mut values.data);
        values.end();
        return Ok(());
    }
    match json.string()? {
        Some(text) => values.push(text),
        None => values.push(&json.unescaped),
    }
    Ok(())
}

#[inline]
fn double(json: &mut Json<'_>) -> Parsed<f64> {
    let start = json.at;
    if let Some(value) = json.non_finite() {
        return Ok(value);
    }
    match json.number("a number")?.double() {
        Some(value) => Ok(value),
        None => json.fail(Reason::Unfit, start),
    }
}
