//! Publish acks, `{"stream":"S","seq":7}`, parsed without a JSON parser if possible.

use std::collections::HashMap;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;
use serde::Deserialize;

use crate::api::ApiError;
use base::error::{JetError, Result};

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct PubAck {
    #[serde(default)]
    pub stream: String,
    #[serde(default)]
    pub seq: u64,
    #[serde(default)]
    pub duplicate: bool,
    pub domain: Option<String>,
    /// Batch that this message committed, and the number of its messages.
    pub batch: Option<String>,
    pub count: Option<u64>,
    /// Value of the counter, in counter streams.
    pub val: Option<String>,
}

/// Fields that all acks of one stream share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Origin {
    pub stream: String,
    pub domain: Option<String>,
}

impl PubAck {
    /// True if the ack has fields beyond stream, sequence and domain.
    pub fn says_more(&self) -> bool {
        self.batch.is_some() || self.count.is_some() || self.val.is_some()
    }
}

impl Origin {
    pub fn ack(&self, seq: u64, duplicate: bool) -> PubAck {
        let Origin { stream, domain } = self.clone();
        PubAck { stream, domain, seq, duplicate, ..PubAck::default() }
    }
}

/// Parsed reply to a publish.
pub enum Reading {
    Ack(PubAck),
    /// The server's error, and the stream that it names.
    Rejected {
        stream: Option<String>,
        error: JetError,
    },
    Unreadable(JetError),
}

pub fn read(payload: &[u8]) -> Reading {
    #[derive(Deserialize)]
    struct AckJson {
        error: Option<ApiError>,
        #[serde(flatten)]
        ack: PubAck,
    }
    match serde_json::from_slice::<AckJson>(payload) {
        Ok(AckJson { error: Some(error), ack }) => {
            let stream = Some(ack.stream).filter(|name| !name.is_empty());
            Reading::Rejected { error: error.of_stream(stream.clone()), stream }
        }
        Ok(AckJson { ack, .. }) if !ack.stream.is_empty() && ack.seq > 0 => Reading::Ack(ack),
        _ => Reading::Unreadable(JetError::Protocol {
            what: "a publish".into(),
            answer: String::from_utf8_lossy(&payload[..payload.len().min(200)]).into_owned(),
        }),
    }
}

/// Parses an ack, or returns the error in its place.
pub fn parse(payload: &[u8]) -> Result<PubAck> {
    match read(payload) {
        Reading::Ack(ack) => Ok(ack),
        Reading::Rejected { error, .. } | Reading::Unreadable(error) => Err(error),
    }
}

/// Most streams whose acks are known. Acks of others are parsed as JSON, and have fresh tokens.
pub const MAX_STREAMS: usize = 4_096;
const SEQ_KEY: &[u8] = b"\"seq\":";

/// Parser of acks. It compares each with the first one of its stream: only the sequence and the tail differ.
#[derive(Default)]
pub struct AckParser {
    /// Bytes before the first digit of the sequence, in acks of the stream that acknowledged last.
    prefix: Arc<[u8]>,
    origin: Arc<Origin>,
    /// The same of all streams, because their acks arrive in any order.
    streams: HashMap<Arc<[u8]>, Arc<Origin>, FxBuildHasher>,
}

impl AckParser {
    /// Returns the sequence, and whether it is a duplicate; `None` if the ack has another shape, for `parse`.
    pub fn quick(&mut self, payload: &[u8]) -> Option<(u64, bool)> {
        if self.prefix.is_empty() || !payload.starts_with(&self.prefix) {
            let (prefix, origin) = self.streams.get_key_value(&payload[..seq_at(payload)?])?;
            (self.prefix, self.origin) = (prefix.clone(), origin.clone());
        }
        seq_and_tail(&payload[self.prefix.len()..])
    }

    /// Returns the origin of the last ack that `quick` read.
    pub fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    /// Returns the origin of an ack that `parse` returned.
    pub fn origin_of(&self, ack: &PubAck) -> Arc<Origin> {
        if self.origin.stream == ack.stream && self.origin.domain == ack.domain {
            return self.origin.clone();
        }
        Arc::new(Origin { stream: ack.stream.clone(), domain: ack.domain.clone() })
    }

    /// Learns the shape of an ack that `parse` returned, and its origin. The following acks must have no other fields.
    pub fn learn(&mut self, payload: &[u8], ack: &PubAck, origin: &Arc<Origin>) {
        if ack.says_more() || self.streams.len() == MAX_STREAMS {
            return;
        }
        // A tail with further fields is specific to this ack.
        if let Some(at) = seq_at(payload)
            && seq_and_tail(&payload[at..]).is_some()
        {
            (self.prefix, self.origin) = (payload[..at].into(), origin.clone());
            self.streams.insert(self.prefix.clone(), self.origin.clone());
        }
    }
}

/// The position of the sequence. A string of JSON has no such bytes: it escapes quotes.
fn seq_at(payload: &[u8]) -> Option<usize> {
    payload.windows(SEQ_KEY.len()).position(|bytes| bytes == SEQ_KEY).map(|at| at + SEQ_KEY.len())
}

/// Reads what an ack has from its sequence on.
fn seq_and_tail(rest: &[u8]) -> Option<(u64, bool)> {
    let digits = rest.iter().position(|b| !b.is_ascii_digit())?;
    // The server's sequences start at 1 and have no leading zeros.
    if digits == 0 || digits > 18 || rest[0] == b'0' {
        return None;
    }
    let seq = rest[..digits].iter().fold(0u64, |n, b| n * 10 + u64::from(b - b'0'));
    match &rest[digits..] {
        b"}" => Some((seq, false)),
        b",\"duplicate\": true}" | b",\"duplicate\":true}" => Some((seq, true)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn(parser: &mut AckParser, payload: &[u8], ack: &PubAck) {
        let origin = parser.origin_of(ack);
        parser.learn(payload, ack, &origin);
    }

    #[test]
    fn acks_and_errors_are_parsed() {
        let ack = parse(br#"{"stream":"S", "seq":7,"duplicate": true,"domain":"hub"}"#).unwrap_or_default();
        assert_eq!(
            ack,
            PubAck { stream: "S".into(), seq: 7, duplicate: true, domain: Some("hub".into()), ..PubAck::default() }
        );
        let error = parse(br#"{"type":"x","error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"},"stream":"S","seq":0}"#);
        assert_eq!(
            error,
            Err(JetError::Api {
                code: 400,
                err_code: 10071,
                description: "wrong last sequence: 3".into(),
                stream: Some("S".into())
            })
        );
        for junk in [&b""[..], b"{", b"[]", b"{}", b"{\"stream\":\"S\"}", b"{\"stream\":\"S\",\"seq\":-1}", b"\xff"] {
            assert!(matches!(parse(junk), Err(JetError::Protocol { .. })), "{junk:?}");
        }
    }

    #[test]
    fn quick_returns_the_result_of_parse_or_none() {
        let first = br#"{"stream":"S", "seq":7}"#;
        let mut parser = AckParser::default();
        assert_eq!(parser.quick(first), None);
        learn(&mut parser, first, &PubAck { stream: "S".into(), seq: 7, ..PubAck::default() });
        assert_eq!(parser.quick(br#"{"stream":"S", "seq":123456789012}"#), Some((123456789012, false)));
        assert_eq!(parser.quick(br#"{"stream":"S", "seq":9,"duplicate": true}"#), Some((9, true)));
        for other in [
            &br#"{"stream":"T", "seq":7}"#[..],
            br#"{"stream":"S", "seq":}"#,
            br#"{"stream":"S", "seq":7"#,
            br#"{"stream":"S", "seq":0}"#,
            br#"{"stream":"S", "seq":07}"#,
            br#"{"stream":"S", "seq":7,"domain":"d"}"#,
            br#"{"stream":"S", "seq":99999999999999999999}"#,
        ] {
            assert_eq!(parser.quick(other), None);
        }
    }

    #[test]
    fn acks_of_streams_in_turn_are_read_quickly() {
        let streams = [("S", None), ("T", None), ("S", Some("hub"))];
        let text = |(stream, domain): (&str, Option<&str>), seq: u64| {
            let domain = domain.map_or_else(String::new, |domain| format!("\"domain\":\"{domain}\", "));
            format!("{{\"stream\":\"{stream}\", {domain}\"seq\":{seq}}}")
        };
        let mut parser = AckParser::default();
        for one in streams {
            let first = text(one, 1);
            assert_eq!(parser.quick(first.as_bytes()), None);
            learn(&mut parser, first.as_bytes(), &parse(first.as_bytes()).unwrap_or_default());
        }
        for seq in 2..9 {
            for (stream, domain) in streams {
                assert_eq!(parser.quick(text((stream, domain), seq).as_bytes()), Some((seq, false)));
                let origin = Origin { stream: stream.into(), domain: domain.map(str::to_owned) };
                assert_eq!(**parser.origin(), origin);
            }
        }
    }

    #[test]
    fn quick_drops_no_field() {
        let mut parser = AckParser::default();
        for (first, next) in [
            (&br#"{"stream":"S", "domain":"hub", "seq":1}"#[..], &br#"{"stream":"S", "domain":"hub", "seq":2}"#[..]),
            (br#"{"stream":"S", "seq":1}"#, br#"{"stream":"S", "seq":2}"#),
            (br#"{"stream":"S", "seq":1,"domain":"hub"}"#, br#"{"stream":"S", "seq":2}"#),
            (br#"{"val":"1","stream":"S", "seq":1}"#, br#"{"val":"1","stream":"S", "seq":2}"#),
            (br#"{"batch":"b","count":1,"stream":"S","seq":1}"#, br#"{"batch":"b","count":1,"stream":"S","seq":2}"#),
        ] {
            let ack = parse(first).unwrap_or_default();
            learn(&mut parser, first, &ack);
            let all = parse(next).unwrap_or_default();
            if let Some((seq, duplicate)) = parser.quick(next) {
                let Origin { stream, domain } = (**parser.origin()).clone();
                assert_eq!(PubAck { stream, seq, duplicate, domain, ..PubAck::default() }, all);
            } else {
                let more = all.says_more() || ack.domain != all.domain;
                assert!(more, "{all:?} could be read quickly");
            }
        }
    }
}
