//! Markers of key-value buckets (ADR-8, ADR-48): messages that mark a key as deleted, purged or expired.

use wire::headers::Headers;

/// Operation of a bucket's message on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvOperation {
    Put,
    Delete,
    Purge,
    /// Marker of the server with a reason that this version does not support; the key has no value.
    Unknown,
}

impl KvOperation {
    pub fn of(headers: Option<&Headers>) -> KvOperation {
        let Some(headers) = headers else { return KvOperation::Put };
        let text = |name: &str| headers.get(name).and_then(|values| values.last()).map(String::as_str);
        KvOperation::said(text("KV-Operation"), text("Nats-Marker-Reason"))
    }

    /// Reads the operation: clients set one header, the server the other.
    fn said(operation: Option<&str>, reason: Option<&str>) -> KvOperation {
        match (operation, reason) {
            (Some("DEL"), _) => KvOperation::Delete,
            (Some("PURGE"), _) => KvOperation::Purge,
            (Some(_), _) | (None, None) => KvOperation::Put,
            (None, Some("Remove")) => KvOperation::Delete,
            (None, Some("MaxAge" | "Purge")) => KvOperation::Purge,
            (None, Some(_)) => KvOperation::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_is_read_from_the_header_of_client_or_server() {
        let of = |pairs: &[(&str, &str)]| {
            let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), vec![(*value).to_owned()]);
            let headers = pairs.iter().map(pair).collect();
            KvOperation::of(Some(&headers))
        };
        assert_eq!(KvOperation::of(None), KvOperation::Put);
        assert_eq!(of(&[("Other", "DEL")]), KvOperation::Put);
        assert_eq!(of(&[("KV-Operation", "DEL")]), KvOperation::Delete);
        assert_eq!(of(&[("KV-Operation", "PURGE"), ("Nats-Rollup", "sub")]), KvOperation::Purge);
        assert_eq!(of(&[("KV-Operation", "PUT")]), KvOperation::Put);
        assert_eq!(of(&[("Nats-Marker-Reason", "MaxAge"), ("Nats-TTL", "5s")]), KvOperation::Purge);
        assert_eq!(of(&[("Nats-Marker-Reason", "Purge")]), KvOperation::Purge);
        assert_eq!(of(&[("Nats-Marker-Reason", "Remove")]), KvOperation::Delete);
        assert_eq!(of(&[("Nats-Marker-Reason", "Later")]), KvOperation::Unknown);
    }
}
