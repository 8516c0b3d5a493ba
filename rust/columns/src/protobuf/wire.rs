//! The wire format: fields with a number and a value of a few forms. The bytes are untrusted.

use super::descriptor::Scalar;

/// Depth of groups that are skipped.
const MAX_GROUPS: usize = 64;

/// A payload is malformed; the input has the reason.
#[derive(Debug)]
pub struct Stop;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireType {
    Varint,
    Fixed64,
    Bytes,
    Group,
    Fixed32,
}

/// The value of a field in the payload, without tag and length.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub start: u32,
    pub end: u32,
    pub wire: WireType,
}

impl Scalar {
    pub fn wire(self) -> WireType {
        match self {
            Scalar::Double | Scalar::Fixed64 | Scalar::Sfixed64 => WireType::Fixed64,
            Scalar::Float | Scalar::Fixed32 | Scalar::Sfixed32 => WireType::Fixed32,
            Scalar::String | Scalar::Bytes => WireType::Bytes,
            _ => WireType::Varint,
        }
    }
}

/// A part of the payload, and the place in it.
pub struct Wire<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

const CUT: &str = "the message is cut off";

impl<'a> Wire<'a> {
    pub fn new(bytes: &'a [u8], part: Segment) -> Wire<'a> {
        let end = (part.end as usize).min(bytes.len());
        Wire { bytes, at: (part.start as usize).min(end), end }
    }

    pub fn is_empty(&self) -> bool {
        self.at == self.end
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, &'static str> {
        let mut value = 0u64;
        for (place, byte) in self.bytes[self.at..self.end].iter().enumerate().take(10) {
            // Bits beyond 64 are dropped, as other parsers do.
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                self.at += place + 1;
                return Ok(value);
            }
        }
        Err(if self.end - self.at < 10 { CUT } else { "a number has more than 64 bits" })
    }

    /// Returns the number in a segment that was checked before.
    pub fn varint_of(bytes: &[u8]) -> u64 {
        bytes.iter().take(10).enumerate().fold(0, |value, (place, byte)| value | u64::from(byte & 0x7f) << (7 * place))
    }

    pub fn varint_or_zero(&mut self) -> u64 {
        self.varint().unwrap_or_default()
    }

    /// Reads a field: its number and value. A group is skipped.
    #[inline]
    pub fn field(&mut self) -> Result<(u32, Segment), &'static str> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| (1..1 << 29).contains(number));
        let number = number.ok_or("a field has an invalid number")?;
        let wire = wire_type(tag)?;
        if wire == WireType::Group {
            let start = self.at;
            self.pass_group(number, 0)?;
            return Ok((number, self.segment(start, wire)));
        }
        Ok((number, self.value(wire)?))
    }

    /// Reads a value.
    #[inline]
    pub fn value(&mut self, wire: WireType) -> Result<Segment, &'static str> {
        let start = self.at;
        match wire {
            WireType::Varint => {
                self.varint()?;
                Ok(self.segment(start, wire))
            }
            WireType::Fixed64 => self.take(8, wire),
            WireType::Fixed32 => self.take(4, wire),
            WireType::Bytes => {
                let length = usize::try_from(self.varint()?).map_err(|_| CUT)?;
                self.take(length, wire)
            }
            WireType::Group => Err("a group has no value"),
        }
    }

    fn take(&mut self, length: usize, wire: WireType) -> Result<Segment, &'static str> {
        let start = self.at;
        if length > self.end - start {
            return Err(if wire == WireType::Bytes { "a length exceeds the message" } else { CUT });
        }
        self.at += length;
        Ok(self.segment(start, wire))
    }

    /// A payload has less than 4 GiB.
    fn segment(&self, start: usize, wire: WireType) -> Segment {
        Segment { start: start as u32, end: self.at as u32, wire }
    }

    fn pass_group(&mut self, group: u32, depth: usize) -> Result<(), &'static str> {
        if depth == MAX_GROUPS {
            return Err("groups are nested too deeply");
        }
        loop {
            let tag = self.varint()?;
            let number = (tag >> 3) as u32;
            match tag & 7 {
                4 if number == group => return Ok(()),
                4 => return Err("a group ends that has not begun"),
                3 => self.pass_group(number, depth + 1)?,
                _ => drop(self.value(wire_type(tag)?)?),
            }
        }
    }
}

fn wire_type(tag: u64) -> Result<WireType, &'static str> {
    Ok(match tag & 7 {
        0 => WireType::Varint,
        1 => WireType::Fixed64,
        2 => WireType::Bytes,
        3 => WireType::Group,
        4 => return Err("a group ends that has not begun"),
        5 => WireType::Fixed32,
        _ => return Err("a field has an invalid wire type"),
    })
}
