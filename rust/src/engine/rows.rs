//! Rows to publish, column by column, wherever the bytes live: Python objects, Arrow buffers, Rust vectors.

use std::sync::Arc;

use arrow_array::{
    Array, BinaryArray, BinaryViewArray, LargeBinaryArray, LargeStringArray, StringArray, StringViewArray,
};
use async_nats::header::{NATS_EXPECTED_STREAM, NATS_MESSAGE_ID};
use async_nats::{HeaderMap, HeaderValue, Subject};

use crate::engine::subject;
use crate::error::{JetError, Result};

/// A column of byte strings; `None` is a null.
pub trait Payloads: Send + Sync {
    fn get(&self, row: usize) -> Option<&[u8]>;
}

/// A column of strings; `None` is a null.
pub trait Texts: Send + Sync {
    fn get(&self, row: usize) -> Option<&str>;
}

macro_rules! arrow_payloads {
    ($($array:ty),*) => {$(
        impl Payloads for $array {
            fn get(&self, row: usize) -> Option<&[u8]> {
                self.is_valid(row).then(|| self.value(row).as_ref())
            }
        }
    )*};
}
arrow_payloads!(BinaryArray, LargeBinaryArray, BinaryViewArray, StringArray, LargeStringArray, StringViewArray);

macro_rules! arrow_texts {
    ($($array:ty),*) => {$(
        impl Texts for $array {
            fn get(&self, row: usize) -> Option<&str> {
                self.is_valid(row).then(|| self.value(row))
            }
        }
    )*};
}
arrow_texts!(StringArray, LargeStringArray, StringViewArray);

impl Payloads for Vec<Vec<u8>> {
    fn get(&self, row: usize) -> Option<&[u8]> {
        self.as_slice().get(row).map(Vec::as_slice)
    }
}

impl Texts for Vec<String> {
    fn get(&self, row: usize) -> Option<&str> {
        self.as_slice().get(row).map(String::as_str)
    }
}

pub enum Subjects {
    One(Subject),
    Each(Box<dyn Texts>),
}

pub enum Headers {
    None,
    One(HeaderMap),
    Each(Vec<Option<HeaderMap>>),
}

/// A block of rows, immutable once made; in-flight rows keep it alive so that they can be sent again.
pub struct Rows {
    pub len: usize,
    pub subjects: Subjects,
    pub payloads: Box<dyn Payloads>,
    pub msg_ids: Option<Box<dyn Texts>>,
    pub headers: Headers,
    pub expected_stream: Option<Arc<str>>,
}

impl Rows {
    pub fn msg_id(&self, row: usize) -> Option<&str> {
        self.msg_ids.as_ref().and_then(|ids| ids.get(row))
    }

    pub fn subject(&self, row: usize) -> Option<&str> {
        match &self.subjects {
            Subjects::One(subject) => Some(subject.as_str()),
            Subjects::Each(texts) => texts.get(row),
        }
    }

    fn own_headers(&self, row: usize) -> Option<&HeaderMap> {
        match &self.headers {
            Headers::None => None,
            Headers::One(map) => Some(map),
            Headers::Each(maps) => maps.get(row).and_then(Option::as_ref),
        }
    }

    /// The headers as they go onto the wire.
    pub fn wire_headers(&self, row: usize) -> Option<HeaderMap> {
        let id = self.msg_id(row);
        let own = self.own_headers(row);
        if id.is_none() && own.is_none() && self.expected_stream.is_none() {
            return None;
        }
        let mut map = own.cloned().unwrap_or_default();
        if let Some(id) = id {
            map.insert(NATS_MESSAGE_ID, HeaderValue::from(id));
        }
        if let Some(stream) = &self.expected_stream {
            map.insert(NATS_EXPECTED_STREAM, HeaderValue::from(&**stream));
        }
        Some(map)
    }

    /// Everything about one row that the server, or the wire, would choke on.
    pub fn check(&self, row: usize, max_payload: usize) -> Result<()> {
        let Some(payload) = self.payloads.get(row) else {
            return Err(JetError::Value(format!("row {row}: the payload is null")));
        };
        match &self.subjects {
            Subjects::One(_) => {}
            Subjects::Each(texts) => match texts.get(row) {
                Some(text) => subject::check(text)?,
                None => return Err(JetError::Value(format!("row {row}: the subject is null"))),
            },
        }
        let id = self.msg_id(row);
        if let Some(id) = id {
            subject::check_header("Nats-Msg-Id", id)?;
        }
        let size = payload.len() + self.header_size(row, id);
        if size > max_payload {
            return Err(JetError::MaxPayload { what: format!("row {row}"), size, limit: max_payload });
        }
        Ok(())
    }

    fn header_size(&self, row: usize, id: Option<&str>) -> usize {
        const VERSION_AND_END: usize = "NATS/1.0\r\n\r\n".len();
        let line = |name: &str, value: &str| name.len() + value.len() + ": \r\n".len();
        let mut size = 0;
        if let Some(map) = self.own_headers(row) {
            size += map
                .iter()
                .flat_map(|(n, values)| values.iter().map(move |v| line(n.as_ref(), v.as_str())))
                .sum::<usize>();
        }
        size += id.map_or(0, |id| line("Nats-Msg-Id", id));
        size += self.expected_stream.as_ref().map_or(0, |s| line("Nats-Expected-Stream", s));
        if size == 0 { 0 } else { size + VERSION_AND_END }
    }

    /// All rows at once, for inputs that are here as a whole: an exception before anything is sent.
    /// A null payload passes: it is its row's own error, later.
    pub fn check_all(&self, max_payload: usize) -> Result<()> {
        if let Subjects::One(subject) = &self.subjects {
            subject::check(subject)?;
        }
        (0..self.len).filter(|row| self.payloads.get(*row).is_some()).try_for_each(|row| self.check(row, max_payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(payloads: Vec<Vec<u8>>) -> Rows {
        Rows {
            len: payloads.len(),
            subjects: Subjects::One("a.b".into()),
            payloads: Box::new(payloads),
            msg_ids: None,
            headers: Headers::None,
            expected_stream: None,
        }
    }

    #[test]
    fn header_size_is_what_goes_onto_the_wire() {
        let mut own = HeaderMap::new();
        own.append("X", "1");
        own.append("X", "22");
        let rows = Rows {
            msg_ids: Some(Box::new(vec!["id-1".to_owned()])),
            headers: Headers::One(own),
            expected_stream: Some("S".into()),
            ..rows(vec![b"x".to_vec()])
        };
        let expected = "NATS/1.0\r\nX: 1\r\nX: 22\r\nNats-Msg-Id: id-1\r\nNats-Expected-Stream: S\r\n\r\n".len();
        assert_eq!(rows.header_size(0, rows.msg_id(0)), expected);
        assert_eq!(rows.check_all(expected + 1), Ok(()));
        assert!(matches!(rows.check_all(expected), Err(JetError::MaxPayload { .. })));
    }

    #[test]
    fn nulls_and_bad_rows_are_named() {
        let array = BinaryArray::from_opt_vec(vec![Some(b"x"), None]);
        let with_null = Rows { payloads: Box::new(array), ..rows(vec![vec![], vec![]]) };
        assert_eq!(with_null.check_all(100), Ok(()));
        assert!(with_null.check(1, 100).is_err_and(|e| e.to_string().contains("row 1")));
        let subjects = Subjects::Each(Box::new(vec!["ok".to_owned(), "not ok".to_owned()]));
        let bad = Rows { subjects, ..rows(vec![vec![], vec![]]) };
        assert!(matches!(bad.check_all(100), Err(JetError::BadSubject { .. })));
    }
}
