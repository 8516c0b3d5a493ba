//! Requests to a registry, each on a connection of its own: answers are cached, so there are few.

use std::sync::{Arc, Weak};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use http::{Method, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_rustls::TlsConnector;
use url::Url;

use base::error::{JetError, Result};
use client::tls::{self, Tls};

/// Size of an answer. Schemas of some hundred kilobytes exist.
const MAX_ANSWER: usize = 16 << 20;
/// The first wait before a request is sent again; it doubles up to `LAST_WAIT`.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LAST_WAIT: Duration = Duration::from_secs(1);
const MEDIA_TYPE: &str = "application/vnd.schemaregistry.v1+json";

/// The credentials of requests, which no error shows.
pub enum Credentials {
    None,
    Basic { user: String, password: String },
    Bearer(String),
}

/// The address of a registry, and how to reach it.
pub struct Http {
    base: Url,
    authorization: Option<HeaderValue>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    host: String,
    port: u16,
    timeout: Duration,
}

/// An answer of the registry.
pub struct Answer {
    pub status: u16,
    pub body: Bytes,
}

/// Why there is no answer.
struct Failure {
    cause: String,
    /// It can end by itself.
    transient: bool,
}

fn transient(cause: impl ToString) -> Failure {
    Failure { cause: cause.to_string(), transient: true }
}

impl Http {
    pub fn new(url: &str, credentials: &Credentials, tls: Option<&Tls>, timeout: Duration) -> Result<Http> {
        let wrong = |reason: &str| JetError::Value(format!("registry: {reason}; use https://host:8081"));
        let mut base = Url::parse(url).map_err(|err| wrong(&format!("not a URL: {err}")))?;
        let secure = match base.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(wrong("the URL begins with neither http:// nor https://")),
        };
        let host = base.host_str().ok_or_else(|| wrong("the URL has no host"))?.to_owned();
        let port = base.port_or_known_default().ok_or_else(|| wrong("the URL has no port"))?;
        let authorization = match credentials {
            Credentials::None => authorization(&in_url(&base))?,
            given => authorization(given)?,
        };
        let _cannot_fail = (base.set_username(""), base.set_password(None));
        base.set_query(None);
        base.set_fragment(None);
        let tls = match (secure, tls) {
            (true, tls) => {
                let config = tls::config(tls.unwrap_or(&Tls::default()), Weak::new())?;
                let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
                let name = name.map_err(|_| wrong("the URL has no valid host name"))?;
                Some((TlsConnector::from(Arc::new(config)), name))
            }
            (false, Some(_)) => return Err(wrong("tls= needs an https:// URL")),
            (false, None) => None,
        };
        Ok(Http { base, authorization, tls, host, port, timeout })
    }

    /// Returns the address without secrets.
    pub fn url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Sends a request until there is an answer that is not an error of the server, or the time is over. An answer 404 is
    /// asked for again within `retry_404_for`.
    pub async fn ask(
        &self,
        path: &[&str],
        query: &str,
        body: Option<&[u8]>,
        retry_404_for: Duration,
    ) -> Result<Answer, String> {
        let begin = Instant::now();
        let deadline = begin + self.timeout;
        let mut wait = FIRST_WAIT;
        loop {
            let answer = match timeout_at(deadline, self.once(path, query, body)).await {
                Ok(answer) => answer,
                Err(_) => Err(transient(format!("no answer within {} s", self.timeout.as_secs_f64()))),
            };
            let over = Instant::now() + wait >= deadline;
            match answer {
                Ok(answer) if answer.status == 404 && begin.elapsed() + wait < retry_404_for && !over => {}
                Ok(answer) if (answer.status >= 500 || answer.status == 429) && !over => {}
                Ok(answer) if (300..400).contains(&answer.status) => {
                    let status = answer.status;
                    return Err(format!(
                        "status {status}: redirects are not followed, because the credentials would go elsewhere; give \
                         the final address"
                    ));
                }
                Ok(answer) => return Ok(answer),
                Err(failure) if failure.transient && !over => {}
                Err(failure) => return Err(failure.cause),
            }
            sleep(wait).await;
            wait = (wait * 2).min(LAST_WAIT);
        }
    }

    async fn once(&self, path: &[&str], query: &str, body: Option<&[u8]>) -> Result<Answer, Failure> {
        let tcp = TcpStream::connect((self.host.trim_matches(['[', ']']), self.port)).await.map_err(transient)?;
        let Some((connector, name)) = &self.tls else { return self.exchange(tcp, path, query, body).await };
        let tls = connector.connect(name.clone(), tcp).await.map_err(|err| {
            let inner = err.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            Failure { cause: inner.map_or_else(|| err.to_string(), tls::explain), transient: inner.is_none() }
        })?;
        self.exchange(tls, path, query, body).await
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        path: &[&str],
        query: &str,
        body: Option<&[u8]>,
    ) -> Result<Answer, Failure> {
        let request = self.request(path, query, body).map_err(|cause| Failure { cause, transient: false })?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(transient)?;
        let answer = async {
            let answer = sender.send_request(request).await.map_err(transient)?;
            let status = answer.status().as_u16();
            let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
            let body = body.map_err(|err| transient(format!("the answer cannot be read: {err}")))?;
            Ok(Answer { status, body: body.to_bytes() })
        };
        let drive = async {
            let _ends_with_its_sender = connection.await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            answer = answer => answer,
            () = drive => Err(transient("the connection was closed")),
        }
    }

    fn request(&self, path: &[&str], query: &str, body: Option<&[u8]>) -> Result<Request<Full<Bytes>>, String> {
        let mut url = self.base.clone();
        match url.path_segments_mut() {
            Ok(mut segments) => drop(segments.pop_if_empty().extend(path)),
            Err(()) => return Err("the URL has no path".into()),
        }
        let target = match query {
            "" => url.path().to_owned(),
            query => format!("{}?{query}", url.path()),
        };
        let default = matches!((self.tls.is_some(), self.port), (true, 443) | (false, 80));
        let host = if default { self.host.clone() } else { format!("{}:{}", self.host, self.port) };
        let mut request = Request::builder()
            .method(if body.is_some() { Method::POST } else { Method::GET })
            .uri(target)
            .header(HOST, host)
            .header(ACCEPT, format!("{MEDIA_TYPE}, application/json"));
        if body.is_some() {
            request = request.header(CONTENT_TYPE, MEDIA_TYPE);
        }
        if let Some(value) = &self.authorization {
            request = request.header(AUTHORIZATION, value.clone());
        }
        let body = Full::new(Bytes::copy_from_slice(body.unwrap_or_default()));
        request.body(body).map_err(|err| err.to_string())
    }
}

/// Returns the credentials in a URL.
fn in_url(url: &Url) -> Credentials {
    let decoded =
        |text: &str| match url::form_urlencoded::parse(format!("x={}", text.replace('+', "%2B")).as_bytes()).next() {
            Some((_, value)) => value.into_owned(),
            None => String::new(),
        };
    match (url.username(), url.password()) {
        ("", None) => Credentials::None,
        (user, password) => Credentials::Basic { user: decoded(user), password: decoded(password.unwrap_or_default()) },
    }
}

fn authorization(credentials: &Credentials) -> Result<Option<HeaderValue>> {
    let text = match credentials {
        Credentials::None => return Ok(None),
        Credentials::Basic { user, password } => {
            format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
        }
        Credentials::Bearer(token) => format!("Bearer {token}"),
    };
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| JetError::Value("registry: the token has characters that a header cannot have".into()))?;
    value.set_sensitive(true);
    Ok(Some(value))
}
