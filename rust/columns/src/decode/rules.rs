//! Rules of a decoder that JSON leaves open: time zone and unit of timestamps, and tolerance.

use std::str::FromStr;

use arrow_schema::TimeUnit;
use base::choice::choose;
use base::error::JetError;
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

#[derive(Clone, Debug, Default)]
pub struct JsonRules {
    /// Zone of texts without an offset, in columns with a zone.
    pub zone: Zone,
    pub numbers: TimeNumbers,
    pub leniency: Leniency,
}

/// Tolerance of documents, as of `from_json` of Spark.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leniency {
    /// Rows keep the fields that fit, string columns take any value as its JSON text without white space, and empty documents are null.
    pub like_spark: bool,
    /// Floats may be NaN or infinite: `NaN`, `Infinity`, `INF`, with a sign, in quotes or without.
    pub non_finite: bool,
}

/// A time zone by its IANA name, or an offset such as `+02:00`.
#[derive(Clone, Debug, Default)]
pub struct Zone(Option<TimeZone>);

impl FromStr for Zone {
    type Err = JetError;

    fn from_str(name: &str) -> Result<Zone, JetError> {
        if matches!(name, "UTC" | "Etc/UTC" | "Z") {
            return Ok(Zone(None));
        }
        let found = match super::number::offset(name.as_bytes()) {
            Some(seconds) => {
                i32::try_from(seconds).ok().and_then(|s| Offset::from_seconds(s).ok()).map(TimeZone::fixed)
            }
            None => TimeZone::get(name).ok(),
        };
        found.map(|zone| Zone(Some(zone))).ok_or_else(|| {
            JetError::Value(format!(
                "time_zone: {name:?} is unknown; valid: UTC, a name such as Europe/Berlin, or +02:00"
            ))
        })
    }
}

impl Zone {
    /// Converts seconds of local time since 1970 into UTC. A time that occurs twice is the earlier one. A time that a
    /// change of the clocks leaves out is later by the length of the gap, as in `java.time`.
    pub fn to_utc(&self, local: i64) -> Option<i64> {
        let Some(zone) = &self.0 else { return Some(local) };
        let civil = Offset::UTC.to_datetime(Timestamp::from_second(local).ok()?);
        Some(zone.to_ambiguous_timestamp(civil).compatible().ok()?.as_second())
    }
}

/// Meaning of a number in a timestamp column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeNumbers {
    /// Malformed.
    Error,
    /// A count of the unit of the column.
    #[default]
    ColumnUnit,
    /// As `from_json`: seconds in columns with a zone, malformed in others.
    LikeSpark,
    Unit(TimeUnit),
}

impl TimeNumbers {
    /// Returns how many units of a number are one second, and `None` if numbers are malformed.
    pub fn per_second(self, column: TimeUnit, zoned: bool) -> Option<i64> {
        match self {
            TimeNumbers::Error => None,
            TimeNumbers::ColumnUnit => Some(per_second(column)),
            TimeNumbers::LikeSpark => zoned.then_some(1),
            TimeNumbers::Unit(unit) => Some(per_second(unit)),
        }
    }
}

impl FromStr for TimeNumbers {
    type Err = JetError;

    fn from_str(word: &str) -> Result<TimeNumbers, JetError> {
        let known = [
            ("error", TimeNumbers::Error),
            ("seconds", TimeNumbers::Unit(TimeUnit::Second)),
            ("millis", TimeNumbers::Unit(TimeUnit::Millisecond)),
            ("micros", TimeNumbers::Unit(TimeUnit::Microsecond)),
            ("nanos", TimeNumbers::Unit(TimeUnit::Nanosecond)),
        ];
        choose("timestamp_numbers", word, &known)
    }
}

pub fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}
