//! Parsers of scalars: exact numbers, dates and timestamps.

use arrow_buffer::i256;

/// A JSON number in parts: ± `whole`.`fraction`, or ± `mantissa` × 10^`exponent` if that is exact.
#[derive(Clone, Copy, Debug)]
pub struct Number<'a> {
    pub text: &'a [u8],
    pub negative: bool,
    pub whole: &'a [u8],
    pub fraction: &'a [u8],
    pub mantissa: u64,
    pub exponent: i64,
}

const TEN_38: i128 = 10i128.pow(38);
/// Powers of ten that a double represents exactly.
const TENS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

impl Number<'_> {
    /// True if the mantissa is exact. 19 digits fit into a u64; more can overflow it.
    #[inline]
    fn exact(&self) -> bool {
        self.whole.len() + self.fraction.len() <= 19
    }

    /// Returns the value as an integer, such as 1.0 and 1e3. `None` if it has a fraction or far exceeds 64 bits.
    #[inline]
    pub fn integer(&self) -> Option<i128> {
        if self.exact() && self.exponent == 0 {
            let value = i128::from(self.mantissa);
            return Some(if self.negative { -value } else { value });
        }
        self.scaled(0, 20, false).map(|(_, low)| low)
    }

    /// Returns the nearest double; `None` if it is infinite.
    #[inline]
    pub fn double(&self) -> Option<f64> {
        // Both operands are exact, so there is only one rounding (Clinger's fast path).
        let tens = self.exponent.unsigned_abs() as usize;
        if self.exact() && self.mantissa < 1 << 53 && tens <= 22 {
            let (value, power) = (self.mantissa as f64, TENS[tens]);
            let value = if self.exponent < 0 { value / power } else { value * power };
            return Some(if self.negative { -value } else { value });
        }
        std::str::from_utf8(self.text).ok()?.parse().ok().filter(|value: &f64| value.is_finite())
    }

    /// Returns the nearest single. A conversion from a double would round twice.
    pub fn single(&self) -> Option<f32> {
        let tens = self.exponent.unsigned_abs() as usize;
        if self.exact() && self.mantissa < 1 << 24 && tens <= 10 {
            let (value, power) = (self.mantissa as f32, TENS[tens] as f32);
            let value = if self.exponent < 0 { value / power } else { value * power };
            return Some(if self.negative { -value } else { value });
        }
        std::str::from_utf8(self.text).ok()?.parse().ok().filter(|value: &f32| value.is_finite())
    }

    /// Returns the value × 10^`scale` as high × 10^38 + low, if it has at most `precision` (≤ 76) digits.
    ///
    /// Digits below the scale are rounded half away from zero; with `round` off they make the result `None`.
    pub fn scaled(&self, scale: i8, precision: u8, round: bool) -> Option<(i128, i128)> {
        let shift = self.exponent + i64::from(scale);
        if self.exact() && (0..=18).contains(&shift) && precision <= 38 {
            let value = i128::from(self.mantissa) * 10i128.pow(shift as u32);
            return (value < 10i128.pow(u32::from(precision)))
                .then_some((0, if self.negative { -value } else { value }));
        }
        let zeros = self.whole.iter().chain(self.fraction).take_while(|digit| **digit == b'0').count();
        let count = (self.whole.len() + self.fraction.len() - zeros) as i64;
        let keep = count + shift;
        if count == 0 {
            return Some((0, 0));
        }
        if keep > i64::from(precision) {
            return None;
        }
        let mut digits = self.whole.iter().chain(self.fraction).skip(zeros).map(|digit| i128::from(digit - b'0'));
        let (mut high, mut low) = (0i128, 0i128);
        for left in (0..keep).rev() {
            let part = if left >= 38 { &mut high } else { &mut low };
            *part = *part * 10 + digits.next().unwrap_or(0);
        }
        if !round && digits.clone().any(|digit| digit != 0) {
            return None;
        }
        // If `keep` is negative, the first dropped digit is an implicit zero.
        if keep >= 0 && digits.next().is_some_and(|digit| digit >= 5) {
            low += 1;
        }
        if low == TEN_38 {
            (high, low) = (high + 1, 0);
        }
        let fits = match precision {
            ..=37 => low < 10i128.pow(u32::from(precision)),
            _ => high < 10i128.pow(u32::from(precision - 38)),
        };
        fits.then_some(if self.negative { (-high, -low) } else { (high, low) })
    }
}

/// Converts the result of [`Number::scaled`] into 256 bits.
pub fn wide((high, low): (i128, i128)) -> i256 {
    i256::from_i128(high).wrapping_mul(i256::from_i128(TEN_38)).wrapping_add(i256::from_i128(low))
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0')))
}

/// Returns the days since 1970-01-01 of `YYYY-MM-DD`.
pub fn days(text: &[u8]) -> Option<i64> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text else { return None };
    let (year, month, day) = (digits(&[*y1, *y2, *y3, *y4])?, digits(&[*m1, *m2])?, digits(&[*d1, *d2])?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=last).contains(&day) {
        return None;
    }
    // Counts years from March, so the leap day is the last day of a year.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468)
}

/// A parsed date and time, with the offset from UTC in seconds if the text has one.
#[derive(Debug, PartialEq, Eq)]
pub struct Moment {
    pub seconds: i64,
    pub nanos: i64,
    pub offset: Option<i64>,
}

/// Parses ISO 8601 as in RFC 3339: `YYYY-MM-DD`, optionally followed by `T` or a space, `HH:MM`, `:SS`, a fraction of 1
/// to 9 digits, and `Z`, `±HH:MM`, `±HHMM` or `±HH`. Rejects leap seconds, because Arrow has none.
pub fn moment(text: &[u8]) -> Option<Moment> {
    let (date, time) = text.split_at_checked(10)?;
    let day = days(date)? * 86_400;
    let Some((b'T' | b't' | b' ', time)) = time.split_first() else {
        return time.is_empty().then_some(Moment { seconds: day, nanos: 0, offset: None });
    };
    let (seconds, nanos, rest) = clock(time)?;
    let offset = match rest {
        [] => None,
        rest => Some(offset(rest)?),
    };
    Some(Moment { seconds: day + seconds - offset.unwrap_or(0), nanos, offset })
}

/// Parses `HH:MM`, `:SS` and a fraction of 1 to 9 digits; returns the seconds, the nanoseconds and the rest.
pub fn clock(text: &[u8]) -> Option<(i64, i64, &[u8])> {
    let (clock, mut rest) = text.split_at_checked(5)?;
    let mut seconds = minutes(clock)? * 60;
    let mut nanos = 0;
    if let [b':', s1, s2, tail @ ..] = rest {
        seconds += digits(&[*s1, *s2]).filter(|second| *second < 60)?;
        rest = tail;
        if let [b'.', tail @ ..] = rest {
            let length = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (fraction, tail) = tail.split_at_checked(length)?;
            if !(1..=9).contains(&length) {
                return None;
            }
            nanos = digits(fraction)? * 10i64.pow(9 - length as u32);
            rest = tail;
        }
    }
    Some((seconds, nanos, rest))
}

/// Parses `Z`, `±HH:MM`, `±HHMM` or `±HH` into seconds.
pub fn offset(text: &[u8]) -> Option<i64> {
    let (sign, zone) = match text {
        [b'Z' | b'z'] => return Some(0),
        [sign @ (b'+' | b'-'), zone @ ..] => (if *sign == b'-' { -60 } else { 60 }, zone),
        _ => return None,
    };
    let minutes = match zone {
        [h1, h2] => minutes(&[*h1, *h2, b':', b'0', b'0'])?,
        [h1, h2, m1, m2] => minutes(&[*h1, *h2, b':', *m1, *m2])?,
        zone => minutes(zone)?,
    };
    Some(sign * minutes)
}

/// Returns the minutes of `HH:MM`.
fn minutes(text: &[u8]) -> Option<i64> {
    let [h1, h2, b':', m1, m2] = text else { return None };
    let (hour, minute) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}
