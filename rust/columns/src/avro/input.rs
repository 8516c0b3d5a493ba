//! The bytes of one payload, which are untrusted.

use crate::varint;

/// A payload is malformed; the input has the reason.
#[derive(Debug)]
pub struct AvroStop;

pub type Read<T> = Result<T, AvroStop>;

/// Number of items without a size, such as nulls, that an array may have.
const MAX_EMPTY_ITEMS: usize = 1 << 16;

pub struct Input<'a> {
    pub rest: &'a [u8],
    pub reason: String,
    /// Path to the malformed value, from the inside out.
    pub trace: Vec<String>,
}

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes, reason: String::new(), trace: Vec::new() }
    }

    #[cold]
    pub fn fail<T>(&mut self, reason: impl Into<String>) -> Read<T> {
        self.reason = reason.into();
        Err(AvroStop)
    }

    #[inline]
    pub fn take(&mut self, count: usize) -> Read<&'a [u8]> {
        match self.rest.split_at_checked(count) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => self.fail("the datum is cut off"),
        }
    }

    pub fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        match self.rest.split_first_chunk() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(*taken)
            }
            None => self.fail("the datum is cut off"),
        }
    }

    #[inline]
    pub fn long(&mut self) -> Read<i64> {
        match varint::take(&mut self.rest) {
            Some(value) => Ok(varint::unzigzag(value)),
            None => {
                self.fail(if self.rest.len() < 10 { "the datum is cut off" } else { "a number has more than 64 bits" })
            }
        }
    }

    #[inline]
    pub fn int(&mut self) -> Read<i64> {
        let value = self.long()?;
        if i32::try_from(value).is_err() { self.fail(format!("{value} is not an int of 32 bits")) } else { Ok(value) }
    }

    /// Reads bytes with their length.
    #[inline]
    pub fn bytes(&mut self) -> Read<&'a [u8]> {
        let length = self.long()?;
        match usize::try_from(length) {
            Ok(length) if length <= self.rest.len() => self.take(length),
            _ => self.fail(format!("a length of {length} bytes, and {} follow", self.rest.len())),
        }
    }

    pub fn boolean(&mut self) -> Read<bool> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => self.fail(format!("{other} is not a boolean")),
        }
    }

    /// Reads the count of the next block of items, of which each has at least `minimum` bytes; 0 at the end.
    ///
    /// `before` is the number of items in the blocks before.
    pub fn block(&mut self, minimum: usize, before: usize) -> Read<usize> {
        let mut count = self.long()?;
        if count < 0 {
            // The size of the block follows.
            count = count.checked_neg().unwrap_or(i64::MAX);
            self.long()?;
        }
        let most = self.rest.len().checked_div(minimum).unwrap_or_else(|| MAX_EMPTY_ITEMS.saturating_sub(before));
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => self.fail(format!("a block of {count} items, and {} bytes follow", self.rest.len())),
        }
    }

    /// Reads the number of a branch or symbol.
    pub fn index(&mut self, count: usize, what: &str) -> Read<usize> {
        let index = self.long()?;
        match usize::try_from(index) {
            Ok(index) if index < count => Ok(index),
            _ => self.fail(format!("{what} {index} of {count}")),
        }
    }
}
