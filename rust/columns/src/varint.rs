//! Numbers of variable length: seven bits a byte, the lowest first (LEB128).

/// Appends a number.
pub fn write(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Maps numbers with a sign to small ones: 0, -1, 1, -2, …
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// Reverses `zigzag`.
#[inline]
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Takes a number from the front of bytes; `None` if they are cut off, or the number has more than 64 bits.
#[inline]
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        // The tenth byte has one bit of 64.
        if at == 9 && *byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            *bytes = &bytes[at + 1..];
            return Some(value);
        }
    }
    None
}
