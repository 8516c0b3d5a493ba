//! Rows to publish, as columns of Python objects, Arrow buffers or Rust vectors.

use std::sync::Arc;

use arrow_array::{
    Array, BinaryArray, BinaryViewArray, LargeBinaryArray, LargeStringArray, StringArray, StringViewArray,
};

use base::error::{About, JetError, Result};
use runtime::foreign::Foreign;
use wire::frames;
use wire::nats::header::NATS_MESSAGE_ID;
use wire::nats::{HeaderMap, HeaderName, HeaderValue, Subject};
use wire::size::{check_total, header_block, header_line, header_lines};
use wire::subject;

/// Default reason of a row without a payload.
pub const NULL: &str = "the payload is null";

/// Column of byte strings; `None` is null.
pub trait Payloads: Send + Sync {
    fn get(&self, row: usize) -> Option<&[u8]>;
}

/// Column of strings; `None` is null.
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

impl Texts for Arc<dyn Texts> {
    fn get(&self, row: usize) -> Option<&str> {
        (**self).get(row)
    }
}

/// Rows of a longer column, from `at` on.
pub struct OffsetTexts {
    pub texts: Arc<dyn Texts>,
    pub at: usize,
}

impl Texts for OffsetTexts {
    fn get(&self, row: usize) -> Option<&str> {
        self.texts.get(self.at + row)
    }
}

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

pub enum RowSubjects {
    One(Subject),
    Each(Box<dyn Texts>),
}

pub enum RowHeaders {
    None,
    One(HeaderMap),
    Each(Vec<Option<HeaderMap>>),
}

/// Immutable block of rows. Rows in flight keep it alive for resends.
pub struct Rows {
    pub len: usize,
    pub subjects: RowSubjects,
    pub payloads: Box<dyn Payloads>,
    pub msg_ids: Option<Box<dyn Texts>>,
    pub headers: RowHeaders,
    /// Headers of all rows of the call: expected stream and time to live.
    pub fixed: Arc<[(HeaderName, HeaderValue)]>,
    pub expected_stream: Option<Arc<str>>,
    /// Reason for which a row has no payload, if known. Such a row is not sent.
    pub reasons: Option<Arc<dyn Texts>>,
    /// `checked` has passed. Rows of a lazily read input are checked one by one when they are sent.
    pub checked: bool,
}

impl Rows {
    pub fn msg_id(&self, row: usize) -> Option<&str> {
        self.msg_ids.as_ref().and_then(|ids| ids.get(row))
    }

    pub fn subject(&self, row: usize) -> Option<&str> {
        match &self.subjects {
            RowSubjects::One(subject) => Some(subject.as_str()),
            RowSubjects::Each(texts) => texts.get(row),
        }
    }

    pub fn own_headers(&self, row: usize) -> Option<&HeaderMap> {
        match &self.headers {
            RowHeaders::None => None,
            RowHeaders::One(map) => Some(map),
            RowHeaders::Each(maps) => maps.get(row).and_then(Option::as_ref),
        }
    }

    /// Returns the headers to send.
    pub fn wire_headers(&self, row: usize) -> Option<HeaderMap> {
        let id = self.msg_id(row);
        let own = self.own_headers(row);
        if id.is_none() && own.is_none() && self.fixed.is_empty() {
            return None;
        }
        let mut map = own.cloned().unwrap_or_default();
        if let Some(id) = id {
            map.insert(NATS_MESSAGE_ID, HeaderValue::from(id));
        }
        for (name, value) in self.fixed.iter() {
            map.insert(name.clone(), value.clone());
        }
        Some(map)
    }

    /// Writes the headers as bytes; nothing without headers.
    pub fn write_headers(&self, row: usize, out: &mut Vec<u8>) {
        let (id, own) = (self.msg_id(row), self.own_headers(row).filter(|own| !own.is_empty()));
        if id.is_none() && own.is_none() && self.fixed.is_empty() {
            return;
        }
        out.extend_from_slice(frames::VERSION_LINE);
        for (name, values) in own.iter().flat_map(|own| own.iter()) {
            let replaced =
                id.is_some() && *name == NATS_MESSAGE_ID || self.fixed.iter().any(|(fixed, _)| fixed == name);
            let values = values.iter().filter(|_| !replaced);
            values.for_each(|value| frames::header(out, name.as_ref(), value.as_str()));
        }
        id.into_iter().for_each(|id| frames::header(out, b"Nats-Msg-Id", id));
        self.fixed.iter().for_each(|(name, value)| frames::header(out, name.as_ref(), value.as_str()));
        out.extend_from_slice(b"\r\n");
    }

    /// Checks all rows of an input that is in memory, so that errors are raised before the first message. A null
    /// payload passes; it becomes an error of its row later.
    pub fn checked(mut self, max_payload: usize) -> Result<Self> {
        if let RowSubjects::One(subject) = &self.subjects {
            subject::check(subject)?;
        }
        (0..self.len)
            .filter(|row| self.payloads.get(*row).is_some())
            .try_for_each(|row| self.check(row, row as u64, max_payload))?;
        self.checked = true;
        Ok(self)
    }

    pub fn no_payload(&self, row: usize, number: u64) -> JetError {
        let reason = self.reasons.as_ref().and_then(|reasons| reasons.get(row)).unwrap_or(NULL);
        JetError::Row { row: number, reason: reason.into() }
    }

    /// Checks one row for all that the server or the protocol would reject.
    pub fn check(&self, row: usize, number: u64, max_payload: usize) -> Result<()> {
        let Some(payload) = self.payloads.get(row) else {
            return Err(self.no_payload(row, number));
        };
        match &self.subjects {
            RowSubjects::One(_) => {}
            RowSubjects::Each(texts) => match texts.get(row) {
                Some(text) => subject::check(text)?,
                None => return Err(JetError::Row { row: number, reason: "the subject is null".into() }),
            },
        }
        let id = self.msg_id(row);
        if let Some(id) = id {
            subject::check_header("Nats-Msg-Id", id)?;
        }
        let size = payload.len() + self.header_size(row, id);
        check_total(|| About::Row(number), size, max_payload)
    }

    pub fn header_size(&self, row: usize, id: Option<&str>) -> usize {
        let mut lines = self.own_headers(row).map_or(0, header_lines);
        lines += id.map_or(0, |id| header_line("Nats-Msg-Id", id));
        lines += self.fixed.iter().map(|(name, value)| header_line(name.as_ref(), value.as_str())).sum::<usize>();
        header_block(lines)
    }
}

impl<T: Payloads + Send + 'static> Payloads for Foreign<T> {
    fn get(&self, row: usize) -> Option<&[u8]> {
        self.get()?.get(row)
    }
}

impl<T: Texts + Send + 'static> Texts for Foreign<T> {
    fn get(&self, row: usize) -> Option<&str> {
        self.get()?.get(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::nats::header::NATS_EXPECTED_STREAM;

    fn rows(payloads: Vec<Vec<u8>>) -> Rows {
        Rows {
            len: payloads.len(),
            subjects: RowSubjects::One("a.b".into()),
            payloads: Box::new(payloads),
            msg_ids: None,
            headers: RowHeaders::None,
            fixed: Arc::new([]),
            expected_stream: None,
            reasons: None,
            checked: false,
        }
    }

    #[test]
    fn header_size_equals_the_encoded_length() {
        let mut own = HeaderMap::new();
        own.append("X", "1");
        own.append("X", "22");
        let rows = Rows {
            msg_ids: Some(Box::new(vec!["id-1".to_owned()])),
            headers: RowHeaders::One(own),
            fixed: Arc::new([(HeaderName::from_static("Nats-Expected-Stream"), "S".into())]),
            ..rows(vec![b"x".to_vec()])
        };
        let expected = "NATS/1.0\r\nX: 1\r\nX: 22\r\nNats-Msg-Id: id-1\r\nNats-Expected-Stream: S\r\n\r\n".len();
        assert_eq!(rows.header_size(0, rows.msg_id(0)), expected);
        assert_eq!(rows.check(0, 0, expected + 1), Ok(()));
        assert!(matches!(rows.checked(expected), Err(JetError::MaxPayload { .. })));
    }

    #[test]
    fn headers_are_equal_as_map_and_as_bytes() {
        let own = |name: &str| {
            let mut own = HeaderMap::new();
            own.append(name, "1");
            own.append(name, "2");
            RowHeaders::One(own)
        };
        let id = || Some(Box::new(vec!["id".to_owned()]) as Box<dyn Texts>);
        let fixed = || Arc::new([(NATS_EXPECTED_STREAM, HeaderValue::from("S"))]);
        for (headers, msg_ids, fixed) in [
            (RowHeaders::None, None, Arc::new([]) as Arc<[_]>),
            (RowHeaders::One(HeaderMap::new()), None, Arc::new([])),
            (own("X"), None, Arc::new([])),
            (own("Nats-Msg-Id"), id(), Arc::new([])),
            (own("Nats-Expected-Stream"), None, fixed()),
            (RowHeaders::None, id(), Arc::new([])),
            (RowHeaders::None, None, fixed()),
        ] {
            let rows = Rows { headers, msg_ids, fixed, ..rows(vec![b"x".to_vec()]) };
            let (mut bytes, mut wanted) = (Vec::new(), Vec::new());
            rows.write_headers(0, &mut bytes);
            let map = rows.wire_headers(0).filter(|map| !map.is_empty());
            map.iter().for_each(|map| frames::header_block(&mut wanted, map));
            assert_eq!(String::from_utf8(bytes), String::from_utf8(wanted));
        }
    }

    #[test]
    fn errors_name_null_and_invalid_rows() {
        let array = BinaryArray::from_opt_vec(vec![Some(b"x"), None]);
        let with_null = Rows { payloads: Box::new(array), ..rows(vec![vec![], vec![]]) };
        assert!(with_null.check(1, 1, 100).is_err_and(|e| e.to_string().contains("row 1")));
        assert!(with_null.checked(100).is_ok_and(|rows| rows.checked));
        let subjects = RowSubjects::Each(Box::new(vec!["ok".to_owned(), "not ok".to_owned()]));
        let bad = Rows { subjects, ..rows(vec![vec![], vec![]]) };
        assert!(matches!(bad.checked(100), Err(JetError::BadSubject { .. })));
    }
}
