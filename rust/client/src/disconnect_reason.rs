//! Errors of connections, from I/O errors and the server's -ERR texts.

use std::io;
use std::time::Duration;

use crate::transport::AttemptFailure;
use base::error::JetError;
use wire::ack_subject::AckSubject;
use wire::message::Message;

/// Details of one attempt to connect, collected until it fails.
#[derive(Clone, Debug, Default)]
pub struct AttemptDetails {
    pub timeout: Duration,
    /// Defect of the server's certificate.
    pub certificate: Option<String>,
    /// The server asked for a client certificate, and the caller passed none.
    pub asked_for_certificate: bool,
    /// `tls_required` of the server's INFO; `None` before the INFO.
    pub tls_required: Option<bool>,
    /// Error from reading or signing the credentials.
    pub credentials: Option<JetError>,
    pub server_error: Option<String>,
}

const NO_CERTIFICATE: &str = "the server asks for a client certificate: pass tls=jetarrow.TLS(cert=..., key=...); \
                              one that is in an ssl.SSLContext cannot be read out of it";

/// Reason of a disconnect.
#[derive(Debug)]
pub enum DisconnectReason {
    Eof,
    Io(io::Error),
    /// The server sent data that is not the NATS protocol.
    Unreadable,
    /// A message or line exceeded this number of bytes.
    TooLarge(usize),
}

/// Builds the error of a failed attempt.
pub fn of_attempt(server: &str, failure: &AttemptFailure, attempt: &AttemptDetails) -> JetError {
    if let Some(error) = &attempt.credentials {
        return error.clone();
    }
    let secure = |cause: String| JetError::SecureFailed { server: server.to_owned(), cause };
    if let Some(cause) = &attempt.certificate {
        return secure(cause.clone());
    }
    if let Some(error) = &attempt.server_error {
        return of_server(server, error, None);
    }
    let cause = match failure {
        AttemptFailure::Unknown => {
            let cause = "the host name cannot be resolved".into();
            return JetError::Io { what: server.to_owned(), cause, errno: None };
        }
        AttemptFailure::Late => return JetError::ConnectTimeout { server: server.to_owned(), after: attempt.timeout },
        AttemptFailure::Broken(cause) => cause.as_str(),
    };
    let tls = cause.contains("fatal alert") || cause.contains("corrupt message") || cause.contains("handshake");
    match attempt.tls_required {
        _ if attempt.asked_for_certificate => secure(format!("{NO_CERTIFICATE} ({cause})")),
        // TLS began although the server has none, because the caller required it.
        Some(false) if tls => JetError::SecureWanted { server: server.to_owned(), first: false },
        None if cause.contains("corrupt message") => JetError::SecureWanted { server: server.to_owned(), first: true },
        _ if tls => secure(cause.to_owned()),
        _ => {
            let words = cause.split(" (os error").next().unwrap_or_default();
            JetError::Io { what: server.to_owned(), cause: words.to_owned(), errno: os_error(cause, "os error ") }
        }
    }
}

/// Builds the error that `connect` raises, from the failure of each server.
pub fn verdict(servers: &str, failures: Vec<(String, JetError)>) -> JetError {
    let decisive = |error: &&JetError| {
        matches!(error, JetError::Authorization { .. } | JetError::Credentials { .. } | JetError::Callback { .. })
    };
    if let Some(error) = failures.iter().map(|(_, error)| error).find(decisive) {
        return error.clone();
    }
    let tls = |error: &JetError| matches!(error, JetError::SecureFailed { .. } | JetError::SecureWanted { .. });
    match failures.as_slice() {
        [(_, error), ..] if failures.iter().all(|(_, error)| tls(error)) => error.clone(),
        [] => JetError::NoServers { servers: servers.to_owned(), cause: "no server answered".into() },
        failures => {
            let servers = servers.to_owned();
            let cause = match failures {
                [(_, error)] => cause(error),
                _ => failures.iter().map(|(s, error)| format!("{s}: {}", cause(error))).collect::<Vec<_>>().join("; "),
            };
            match failures.iter().all(|(_, error)| matches!(error, JetError::ConnectTimeout { .. })) {
                true => JetError::NoAnswer { servers, cause },
                false => JetError::NoServers { servers, cause },
            }
        }
    }
}

/// Text without the server's name, which the caller adds.
fn cause(error: &JetError) -> String {
    match error {
        JetError::Io { cause, .. } => cause.clone(),
        JetError::ConnectTimeout { after, .. } => format!("no answer within {} s", after.as_secs_f64()),
        other => other.to_string(),
    }
}

/// nats-server's `ErrTooManySubs` (errors.go), in lower case. It does not name the subscription.
const TOO_MANY_SUBSCRIPTIONS: &str = "maximum subscriptions exceeded";

/// Builds the error of a server's -ERR. `subscribed` is the subscription it may concern.
pub fn of_server(server: &str, text: &str, subscribed: Option<&str>) -> JetError {
    let lower = text.to_ascii_lowercase();
    if let Some(rest) = lower.strip_prefix("permissions violation for ") {
        let subject = text.split('"').nth(1).unwrap_or_default().to_owned();
        let publish = rest.starts_with("publish");
        // nats-py has this text in lower case, and programs search for it. The subject keeps its case.
        let text = match text.split_once('"') {
            Some((words, quoted)) => format!("{}\"{quoted}", words.to_ascii_lowercase()),
            None => lower,
        };
        return JetError::Permission { publish, subject, text };
    }
    if lower == TOO_MANY_SUBSCRIPTIONS
        && let Some(subject) = subscribed
    {
        let remedy = "raise max_subscriptions of the server, or end subscriptions that are not needed";
        let text = format!("{lower}: the server refused the subscription to {subject:?}; {remedy}");
        return JetError::Permission { publish: false, subject: subject.to_owned(), text };
    }
    if lower.contains("authorization violation") || lower.contains("authentication") {
        let cause = match lower.as_str() {
            "user authentication expired" => "the credentials have expired",
            "user authentication revoked" => "the credentials were revoked",
            "account authentication expired" => "the account has expired",
            _ => "check user, password, token, keys or credentials file",
        };
        return JetError::Authorization { servers: server.to_owned(), cause: format!("{text}; {cause}") };
    }
    if lower == "stale connection" {
        return JetError::Stale { server: server.to_owned() };
    }
    JetError::Server { text: lower }
}

/// Builds the error of a message with malformed headers; `None` if they are valid. `meta` gives the stored position of
/// a message that does not carry it.
pub fn malformed(message: &Message, meta: Option<&AckSubject<'_>>) -> Option<JetError> {
    if !message.is_malformed() {
        return None;
    }
    let stored = meta.copied().or_else(|| message.meta());
    let stored = stored.map(|meta| (meta.stream.to_owned(), u64::try_from(meta.seq).unwrap_or_default()));
    Some(JetError::Malformed { subject: message.subject().into_owned(), stored })
}

/// Builds the error of a disconnect.
pub fn of_break(server: &str, why: &DisconnectReason) -> JetError {
    match why {
        DisconnectReason::Io(error) if error.raw_os_error().is_some() => {
            let cause = error.to_string();
            let cause = cause.split(" (os error").next().unwrap_or_default().to_owned();
            JetError::Io { what: server.to_owned(), cause, errno: error.raw_os_error() }
        }
        DisconnectReason::Eof | DisconnectReason::Io(_) => JetError::Eof { server: server.to_owned() },
        DisconnectReason::Unreadable => {
            let answer = "not the NATS protocol".to_owned();
            JetError::Protocol { what: format!("the connection to {server}"), answer }
        }
        DisconnectReason::TooLarge(limit) => {
            let answer = format!("more than {limit} bytes that are no message");
            JetError::Protocol { what: format!("the connection to {server}"), answer }
        }
    }
}

fn os_error(text: &str, before: &str) -> Option<i32> {
    let (_, rest) = text.rsplit_once(before)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_attempt_names_its_cause() {
        let none = AttemptDetails::default();
        let broken = |words: &str| AttemptFailure::Broken(words.into());
        let refused = of_attempt("h:1", &broken("Connection refused (os error 111)"), &none);
        let JetError::Io { errno, cause, .. } = &refused else { panic!("{refused:?}") };
        assert_eq!((*errno, cause.as_str()), (Some(111), "Connection refused"));
        assert!(matches!(of_attempt("h:1", &AttemptFailure::Unknown, &none), JetError::Io { errno: None, .. }));
        assert!(matches!(of_attempt("h:1", &AttemptFailure::Late, &none), JetError::ConnectTimeout { .. }));
        let plain = AttemptDetails { tls_required: Some(false), ..AttemptDetails::default() };
        let text = broken("received corrupt message of type InvalidContentType");
        assert!(matches!(of_attempt("h:1", &text, &plain), JetError::SecureWanted { .. }));
        let asked =
            AttemptDetails { asked_for_certificate: true, tls_required: Some(true), ..AttemptDetails::default() };
        let error = of_attempt("h:1", &broken("received fatal alert: CertificateRequired"), &asked);
        assert!(error.to_string().contains("jetarrow.TLS"), "{error}");
    }

    #[test]
    fn server_errors_map_to_error_variants() {
        assert_eq!(
            of_server("s", "Permissions Violation for Publish to \"Foo.Bar\"", None),
            JetError::Permission {
                publish: true,
                subject: "Foo.Bar".into(),
                text: "permissions violation for publish to \"Foo.Bar\"".into(),
            }
        );
        assert!(matches!(of_server("s", "Authorization Violation", None), JetError::Authorization { .. }));
        assert!(of_server("s", "User Authentication Expired", None).to_string().contains("expired"));
        assert!(matches!(of_server("s", "Stale Connection", None), JetError::Stale { .. }));
        assert_eq!(
            of_server("s", "Maximum Connections Exceeded", None),
            JetError::Server { text: "maximum connections exceeded".into() }
        );
        let limit = of_server("s", "maximum subscriptions exceeded", Some("a.b"));
        assert!(matches!(&limit, JetError::Permission { publish: false, subject, .. } if subject == "a.b"), "{limit}");
    }

    #[test]
    fn disconnect_names_its_cause() {
        let reset = of_break("s", &DisconnectReason::Io(io::Error::from_raw_os_error(104)));
        assert!(matches!(reset, JetError::Io { errno: Some(104), .. }), "{reset:?}");
        assert!(matches!(of_break("s", &DisconnectReason::Eof), JetError::Eof { .. }));
        assert!(matches!(of_break("s", &DisconnectReason::Unreadable), JetError::Protocol { .. }));
    }

    #[test]
    fn authorization_error_of_one_server_decides() {
        let io = |text: &str| of_attempt("h", &AttemptFailure::Broken(text.into()), &AttemptDetails::default());
        let failures = vec![("a".into(), io("x")), ("b".into(), of_server("b", "Authorization Violation", None))];
        assert!(matches!(verdict("a, b", failures), JetError::Authorization { .. }));
        let failures = vec![("a".into(), io("x")), ("b".into(), io("y"))];
        assert_eq!(
            verdict("a, b", failures).to_string(),
            "could not connect to a, b: a: x; b: y; check the address, and that a server runs there"
        );
    }
}
