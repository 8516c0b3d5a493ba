//! Markers of key-value buckets (ADR-8, ADR-48): messages that say that a key has no value any more.

use wire::headers::Headers;

/// What a message of a bucket does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Put,
    Delete,
    Purge,
    /// The server put it there, for a reason that this version does not know: no value either.
    Unknown,
}

impl Operation {
    pub fn of(headers: Option<&Headers>) -> Operation {
        let Some(headers) = headers else { return Operation::Put };
        let text = |name: &str| headers.get(name).and_then(|values| values.last()).map(String::as_str);
        Operation::said(text("KV-Operation"), text("Nats-Marker-Reason"))
    }

    /// A client says it in the one header, the server in the other.
    fn said(operation: Option<&str>, reason: Option<&str>) -> Operation {
        match (operation, reason) {
            (Some("DEL"), _) => Operation::Delete,
            (Some("PURGE"), _) => Operation::Purge,
            (Some(_), _) | (None, None) => Operation::Put,
            (None, Some("Remove")) => Operation::Delete,
            (None, Some("MaxAge" | "Purge")) => Operation::Purge,
            (None, Some(_)) => Operation::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_or_the_server_says_it() {
        let of = |pairs: &[(&str, &str)]| {
            let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), vec![(*value).to_owned()]);
            let headers = pairs.iter().map(pair).collect();
            Operation::of(Some(&headers))
        };
        assert_eq!(Operation::of(None), Operation::Put);
        assert_eq!(of(&[("Other", "DEL")]), Operation::Put);
        assert_eq!(of(&[("KV-Operation", "DEL")]), Operation::Delete);
        assert_eq!(of(&[("KV-Operation", "PURGE"), ("Nats-Rollup", "sub")]), Operation::Purge);
        assert_eq!(of(&[("KV-Operation", "PUT")]), Operation::Put);
        assert_eq!(of(&[("Nats-Marker-Reason", "MaxAge"), ("Nats-TTL", "5s")]), Operation::Purge);
        assert_eq!(of(&[("Nats-Marker-Reason", "Purge")]), Operation::Purge);
        assert_eq!(of(&[("Nats-Marker-Reason", "Remove")]), Operation::Delete);
        assert_eq!(of(&[("Nats-Marker-Reason", "Later")]), Operation::Unknown);
    }
}
