//! Encoders of dates and times as ISO 8601.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_schema::{ArrowError, DataType, TimeUnit};

use super::scalar::By;
use super::{Cells, EncodeFault, unexpected};

const DAY: i64 = 86_400;
/// Days since 1970 of the first day of year 0 and of year 10000, the limits of four digits.
const FIRST_DAY: i64 = -719_528;
const LAST_DAY: i64 = 2_932_897;

fn push_digits(mut value: u64, width: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + width, b'0');
    for digit in out[start..].iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// Writes `YYYY-MM-DD` of a day since 1970; false if the year does not have four digits.
fn push_date(day: i64, out: &mut Vec<u8>) -> bool {
    if !(FIRST_DAY..LAST_DAY).contains(&day) {
        return false;
    }
    // Counts years from March, in eras of 400 years, so the leap day is the last day of a year.
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let day = day.rem_euclid(146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    push_digits(year.unsigned_abs(), 4, out);
    out.push(b'-');
    push_digits(month.unsigned_abs(), 2, out);
    out.push(b'-');
    push_digits(date.unsigned_abs(), 2, out);
    true
}

/// Writes `HH:MM:SS` of a second of the day, with a fraction of `digits` digits.
fn push_clock(second: i64, fraction: i64, digits: usize, out: &mut Vec<u8>) {
    for (value, end) in [(second / 3600, b':'), (second / 60 % 60, b':'), (second % 60, b'.')] {
        push_digits(value.unsigned_abs(), 2, out);
        out.push(end);
    }
    if digits == 0 || fraction == 0 {
        out.pop();
    } else {
        push_digits(fraction.unsigned_abs(), digits, out);
    }
}

/// Returns the units per second, and the number of digits of a fraction.
fn unit(unit: &TimeUnit) -> (i64, usize) {
    match unit {
        TimeUnit::Second => (1, 0),
        TimeUnit::Millisecond => (1_000, 3),
        TimeUnit::Microsecond => (1_000_000, 6),
        TimeUnit::Nanosecond => (1_000_000_000, 9),
    }
}

fn quoted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
    let start = out.len();
    out.push(b'"');
    let done = write(out);
    if done {
        out.push(b'"');
    } else {
        out.truncate(start);
    }
    done
}

fn by<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    write: impl Fn(i64, &mut Vec<u8>) -> Result<(), EncodeFault> + Send + Sync + 'static,
) -> Box<dyn Cells>
where
    T::Native: Into<i64>,
{
    Box::new(By(array.as_primitive::<T>().clone(), move |array: &PrimitiveArray<T>, row, out: &mut Vec<u8>| {
        write(array.value(row).into(), out)
    }))
}

fn dates<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &ArrayRef, units_in_day: i64) -> Box<dyn Cells> {
    by::<T>(array, move |value, out| {
        if value.rem_euclid(units_in_day) != 0 {
            return Err(EncodeFault::new("a date64 with a time of day; cast the column to a timestamp"));
        }
        if quoted(out, |out| push_date(value.div_euclid(units_in_day), out)) {
            return Ok(());
        }
        Err(EncodeFault::new("a year outside 0 to 9999 cannot be encoded as a date"))
    })
}

fn stamps<T: ArrowPrimitiveType<Native: Into<i64>>>(
    array: &ArrayRef,
    time_unit: &TimeUnit,
    zoned: bool,
) -> Box<dyn Cells> {
    let (second, digits) = unit(time_unit);
    by::<T>(array, move |value, out| {
        let (seconds, fraction) = (value.div_euclid(second), value.rem_euclid(second));
        let written = quoted(out, |out| {
            if !push_date(seconds.div_euclid(DAY), out) {
                return false;
            }
            out.push(b'T');
            push_clock(seconds.rem_euclid(DAY), fraction, digits, out);
            if zoned {
                out.push(b'Z');
            }
            true
        });
        if !written {
            out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        }
        Ok(())
    })
}

fn clocks<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &ArrayRef, time_unit: &TimeUnit) -> Box<dyn Cells> {
    let (second, digits) = unit(time_unit);
    by::<T>(array, move |value, out| {
        if !(0..DAY * second).contains(&value) {
            return Err(EncodeFault::new("a time beyond one day"));
        }
        quoted(out, |out| {
            push_clock(value / second, value % second, digits, out);
            true
        });
        Ok(())
    })
}

fn durations<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &ArrayRef) -> Box<dyn Cells> {
    by::<T>(array, |value, out| {
        out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        Ok(())
    })
}

/// Returns the cells of a column of dates, times, timestamps or durations.
pub fn cells(array: &ArrayRef) -> Result<Box<dyn Cells>, ArrowError> {
    use TimeUnit::*;
    let data_type = array.data_type();
    Ok(match data_type {
        DataType::Date32 => dates::<Date32Type>(array, 1),
        DataType::Date64 => dates::<Date64Type>(array, DAY * 1_000),
        DataType::Timestamp(unit, zone) => match unit {
            Second => stamps::<TimestampSecondType>(array, unit, zone.is_some()),
            Millisecond => stamps::<TimestampMillisecondType>(array, unit, zone.is_some()),
            Microsecond => stamps::<TimestampMicrosecondType>(array, unit, zone.is_some()),
            Nanosecond => stamps::<TimestampNanosecondType>(array, unit, zone.is_some()),
        },
        DataType::Time32(unit @ Second) => clocks::<Time32SecondType>(array, unit),
        DataType::Time32(unit @ Millisecond) => clocks::<Time32MillisecondType>(array, unit),
        DataType::Time64(unit @ Microsecond) => clocks::<Time64MicrosecondType>(array, unit),
        DataType::Time64(unit @ Nanosecond) => clocks::<Time64NanosecondType>(array, unit),
        DataType::Duration(Second) => durations::<DurationSecondType>(array),
        DataType::Duration(Millisecond) => durations::<DurationMillisecondType>(array),
        DataType::Duration(Microsecond) => durations::<DurationMicrosecondType>(array),
        DataType::Duration(Nanosecond) => durations::<DurationNanosecondType>(array),
        other => return Err(unexpected(other)),
    })
}
