//! A validating pull parser of one JSON document (RFC 8259): one pass, no tree.

use arrow_schema::FieldRef;

use super::number::Number;
use super::rules::Leniency;

/// Maximum nesting, so that hostile input cannot overflow the stack.
const MAX_NESTING: usize = 128;

/// The document is malformed. [`Json::fault`] has the reason.
#[derive(Debug)]
pub struct JsonStop;

/// Result of a parser. The reason of an error is in [`Json::fault`].
pub type Parsed<T> = Result<T, JsonStop>;

/// Reason why a document is malformed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reason {
    /// Invalid JSON.
    Syntax(&'static str),
    /// Valid JSON of another type than this one.
    Expected(&'static str),
    /// A value of the right type that the column cannot hold.
    Unfit,
    /// A dictionary has this many values already.
    Full(usize),
    Null,
    #[default]
    Missing,
}

/// One step on the path from a column to the malformed value in it.
#[derive(Debug)]
pub enum JsonStep {
    Field(FieldRef),
    Item(FieldRef),
    Key(String, FieldRef),
}

/// The first fault of a document.
#[derive(Debug, Default)]
pub struct JsonFault {
    pub reason: Reason,
    /// Start of the malformed value, and the position at which parsing stopped.
    pub start: usize,
    pub end: usize,
}

/// Parser of one document, reused for the next.
#[derive(Default)]
pub struct Json<'a> {
    bytes: &'a [u8],
    pub at: usize,
    pub depth: usize,
    /// The last string with escapes, decoded.
    pub unescaped: Vec<u8>,
    pub fault: JsonFault,
    /// Path to the malformed value, innermost step first.
    pub trace: Vec<JsonStep>,
    pub leniency: Leniency,
    /// A member that does not fit is null, instead of a fault of the document.
    pub recovers: bool,
}

impl<'a> Json<'a> {
    pub fn start(&mut self, document: &'a str) {
        self.bytes = document.as_bytes();
        self.at = 0;
        self.depth = 0;
        self.trace.clear();
        self.recovers = false;
        self.space();
    }

    /// Fails unless only white space follows.
    pub fn end(&mut self) -> Parsed<()> {
        self.space();
        if self.at == self.bytes.len() { Ok(()) } else { self.syntax("text after the end of the document") }
    }

    /// Records a fault and returns the error.
    #[cold]
    pub fn fail<T>(&mut self, reason: Reason, start: usize) -> Parsed<T> {
        self.fault = JsonFault { reason, start, end: self.at };
        Err(JsonStop)
    }

    /// Records a syntax error at the present position.
    #[cold]
    pub fn syntax<T>(&mut self, what: &'static str) -> Parsed<T> {
        self.fail(Reason::Syntax(what), self.at)
    }

    /// Returns the next byte, or NUL at the end, which is no byte of valid JSON.
    #[inline]
    pub fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    #[inline]
    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\t' | b'\r') {
            self.at += 1;
        }
    }

    /// Consumes `text` if it is next.
    #[inline]
    pub fn takes(&mut self, text: &[u8]) -> bool {
        let found = self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(text));
        if found {
            self.at += text.len();
        }
        found
    }

    fn word(&mut self, word: &str) -> Parsed<()> {
        if self.takes(word.as_bytes()) { Ok(()) } else { self.syntax("not a value") }
    }

    pub fn null(&mut self) -> Parsed<()> {
        self.word("null")
    }

    pub fn boolean(&mut self) -> Parsed<bool> {
        match self.peek() {
            b't' => self.word("true").map(|()| true),
            b'f' => self.word("false").map(|()| false),
            _ => self.fail(Reason::Expected("a boolean"), self.at),
        }
    }

    /// Consumes the opening of an object or array; true if it is empty.
    #[inline]
    pub fn open(&mut self, open: u8, close: u8, what: &'static str) -> Parsed<bool> {
        if self.peek() != open {
            return self.fail(Reason::Expected(what), self.at);
        }
        if self.depth == MAX_NESTING {
            return self.syntax("nested deeper than 128");
        }
        self.at += 1;
        self.space();
        if self.peek() == close {
            self.at += 1;
            return Ok(true);
        }
        self.depth += 1;
        Ok(false)
    }

    /// Consumes the separator after an element; true if another element follows.
    #[inline]
    pub fn more(&mut self, close: u8) -> Parsed<bool> {
        self.space();
        let next = self.peek();
        if next == b',' {
            self.at += 1;
            self.space();
            return Ok(true);
        }
        if next != close {
            return self.syntax("expected a comma or the end of the object or array");
        }
        self.at += 1;
        self.depth -= 1;
        Ok(false)
    }

    #[inline]
    pub fn colon(&mut self) -> Parsed<()> {
        self.space();
        if self.peek() != b':' {
            return self.syntax("expected a colon");
        }
        self.at += 1;
        self.space();
        Ok(())
    }

    /// Returns the bytes of a string up to a quote, an escape or an invalid byte.
    #[inline]
    fn plain(&mut self) -> Parsed<&'a [u8]> {
        const LOW: u64 = 0x0101_0101_0101_0101;
        const HIGH: u64 = 0x8080_8080_8080_8080;
        let start = self.at;
        let rest = self.bytes.get(start..).unwrap_or_default();
        let mut length = 0;
        // Eight bytes at once: the lowest high bit of `found` marks the first byte that is < 0x20, `"` or `\`.
        for eight in rest.chunks_exact(8) {
            let word = eight.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            let quote = word ^ (LOW * u64::from(b'"'));
            let slash = word ^ (LOW * u64::from(b'\\'));
            let found = (word.wrapping_sub(LOW * 0x20) & !word
                | quote.wrapping_sub(LOW) & !quote
                | slash.wrapping_sub(LOW) & !slash)
                & HIGH;
            if found != 0 {
                length += found.trailing_zeros() as usize / 8;
                self.at = start + length;
                return Ok(&rest[..length]);
            }
            length += 8;
        }
        let tail = rest[length..].iter().take_while(|byte| **byte >= 0x20 && !matches!(byte, b'"' | b'\\')).count();
        self.at = start + length + tail;
        Ok(&rest[..length + tail])
    }

    /// Parses a string; `None` if it had escapes and is in `unescaped`.
    #[inline]
    pub fn string(&mut self) -> Parsed<Option<&'a [u8]>> {
        if self.peek() != b'"' {
            return self.fail(Reason::Expected("a string"), self.at);
        }
        self.at += 1;
        let plain = self.plain()?;
        if self.peek() == b'"' {
            self.at += 1;
            return Ok(Some(plain));
        }
        let mut text = std::mem::take(&mut self.unescaped);
        text.clear();
        text.extend_from_slice(plain);
        let rest = self.escaped(&mut text);
        self.unescaped = text;
        rest.map(|()| None)
    }

    fn escaped(&mut self, text: &mut Vec<u8>) -> Parsed<()> {
        loop {
            match self.peek() {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => self.escape(text)?,
                _ if self.at == self.bytes.len() => return self.syntax("a string without an end"),
                _ => return self.syntax("a control character in a string"),
            }
            let plain = self.plain()?;
            text.extend_from_slice(plain);
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Parsed<()> {
        self.at += 1;
        let byte = match self.peek() {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                self.at += 1;
                let mut code = self.hex()?;
                if (0xD800..0xDC00).contains(&code) && self.takes(b"\\u") {
                    let low = self.hex()?;
                    if (0xDC00..0xE000).contains(&low) {
                        code = 0x1_0000 + ((code & 0x3FF) << 10 | low & 0x3FF);
                    }
                }
                let Some(character) = char::from_u32(code) else { return self.syntax("half of a surrogate pair") };
                text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return self.syntax("an escape that JSON does not have"),
        };
        text.push(byte);
        self.at += 1;
        Ok(())
    }

    fn hex(&mut self) -> Parsed<u32> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = char::from(self.peek()).to_digit(16) else {
                return self.syntax("\\u needs four hex digits");
            };
            code = code << 4 | digit;
            self.at += 1;
        }
        Ok(code)
    }

    #[inline]
    fn digits(&mut self, mantissa: &mut u64) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let mut length = 0;
        while let Some(byte @ b'0'..=b'9') = rest.get(length) {
            *mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
            length += 1;
        }
        self.at += length;
        &rest[..length]
    }

    /// Consumes a number. `expected` is the error text for other values.
    #[inline]
    pub fn number(&mut self, expected: &'static str) -> Parsed<Number<'a>> {
        let start = self.at;
        let negative = self.peek() == b'-';
        self.at += usize::from(negative);
        let mut mantissa = 0;
        let whole = match self.peek() {
            b'0' => {
                self.at += 1;
                b"0"
            }
            b'1'..=b'9' => self.digits(&mut mantissa),
            _ if negative => return self.syntax("a minus without digits"),
            _ => return self.fail(Reason::Expected(expected), start),
        };
        let mut fraction: &[u8] = &[];
        if self.peek() == b'.' {
            self.at += 1;
            fraction = self.digits(&mut mantissa);
            if fraction.is_empty() {
                return self.syntax("a decimal point without digits");
            }
        }
        let mut exponent = 0;
        if matches!(self.peek(), b'e' | b'E') {
            exponent = self.exponent()?;
        }
        let text = &self.bytes[start..self.at];
        Ok(Number { text, negative, whole, fraction, mantissa, exponent: exponent - fraction.len() as i64 })
    }

    fn exponent(&mut self) -> Parsed<i64> {
        self.at += 1;
        let negative = self.peek() == b'-';
        if matches!(self.peek(), b'+' | b'-') {
            self.at += 1;
        }
        let digits = self.digits(&mut 0);
        if digits.is_empty() {
            return self.syntax("an exponent without digits");
        }
        // Saturates far above the exponent of any type, and far below an overflow.
        let size = digits.iter().fold(0, |size: i64, digit| (size * 10 + i64::from(digit - b'0')).min(1 << 40));
        Ok(if negative { -size } else { size })
    }

    /// Returns the text from `start` to the present position.
    pub fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.at).unwrap_or_default()
    }

    /// Validates and skips any value.
    pub fn skip(&mut self) -> Parsed<()> {
        if matches!(self.peek(), b'N' | b'I' | b'+' | b'-') && self.non_finite().is_some() {
            return Ok(());
        }
        match self.peek() {
            b'"' => self.string().map(|_| ()),
            b't' | b'f' => self.boolean().map(|_| ()),
            b'n' => self.null(),
            b'-' | b'0'..=b'9' => self.number("a number").map(|_| ()),
            b'{' => {
                let mut more = !self.open(b'{', b'}', "an object")?;
                while more {
                    self.key()?;
                    self.colon()?;
                    self.skip()?;
                    more = self.more(b'}')?;
                }
                Ok(())
            }
            b'[' => {
                let mut more = !self.open(b'[', b']', "an array")?;
                while more {
                    self.skip()?;
                    more = self.more(b']')?;
                }
                Ok(())
            }
            _ if self.at == self.bytes.len() => self.syntax("the text ends too early"),
            _ => self.syntax("not a value"),
        }
    }

    /// Parses the name of a member, as [`Json::string`].
    #[inline]
    pub fn key(&mut self) -> Parsed<Option<&'a [u8]>> {
        if self.peek() == b'"' { self.string() } else { self.syntax("expected a name in quotes") }
    }
}

/// Parses a text that is one number.
pub fn number(text: &[u8]) -> Option<Number<'_>> {
    let mut json = Json { bytes: text, ..Json::default() };
    json.number("a number").ok().filter(|number| number.text.len() == text.len())
}
