//! Encoder of JSON strings.

use super::EncodeFault;

/// Encoding of each byte: 0 for itself, a letter after a backslash, or `u` for the byte's number.
const ESCAPES: [u8; 256] = {
    let mut escapes = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        escapes[byte] = b'u';
        byte += 1;
    }
    escapes[b'"' as usize] = b'"';
    escapes[b'\\' as usize] = b'\\';
    escapes[b'\n' as usize] = b'n';
    escapes[b'\r' as usize] = b'r';
    escapes[b'\t' as usize] = b't';
    escapes
};
const HEX: &[u8; 16] = b"0123456789abcdef";

/// Writes UTF-8 in quotes.
pub fn write(text: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeFault> {
    out.push(b'"');
    let mut from = 0;
    for (at, byte) in text.iter().enumerate() {
        let escape = ESCAPES[usize::from(*byte)];
        if escape == 0 {
            continue;
        }
        out.extend_from_slice(&text[from..at]);
        from = at + 1;
        if escape == b'u' {
            let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&digits);
        } else {
            out.extend_from_slice(&[b'\\', escape]);
        }
    }
    out.extend_from_slice(&text[from..]);
    out.push(b'"');
    Ok(())
}
