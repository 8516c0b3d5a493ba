//! TLS configuration, certificate verification, and error texts for rejected certificates.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::connection_state::ConnectionState;
use base::error::{JetError, Result};

#[derive(Clone)]
pub struct Tls {
    /// Rejects servers without TLS.
    pub required: bool,
    /// Trusted certificates, PEM or DER; `None`: the system's.
    pub roots: Option<Vec<Vec<u8>>>,
    /// Client certificate chain and private key, both PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Name that the certificate must carry, instead of the address's host.
    pub hostname: Option<String>,
    pub verify: bool,
    pub check_name: bool,
    /// TLS handshake before the server's INFO.
    pub handshake_first: bool,
}

impl Default for Tls {
    fn default() -> Self {
        Tls {
            required: false,
            roots: None,
            identity: None,
            hostname: None,
            verify: true,
            check_name: true,
            handshake_first: false,
        }
    }
}

/// Builds the TLS configuration. It reads no file and no system certificate; the first handshake does. `state`
/// learns why a certificate was rejected.
pub fn config(tls: &Tls, state: Weak<ConnectionState>) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let value = |text: String| JetError::Value(format!("tls: {text}"));
    let hostname = match &tls.hostname {
        None => None,
        Some(name) => Some(ServerName::try_from(name.clone()).map_err(|_| {
            JetError::Value(format!("tls_hostname: {name:?} is neither a host name nor an IP address"))
        })?),
    };
    let roots = OnceLock::new();
    let mut pinned = Vec::new();
    if let Some(given) = &tls.roots {
        pinned = certificates(given).map_err(value)?;
        let mut store = RootCertStore::empty();
        for cert in &pinned {
            store.add(cert.clone()).map_err(|e| value(format!("a CA certificate cannot be used: {e}")))?;
        }
        if store.is_empty() && tls.verify {
            return Err(value("there is no certificate in ca".into()));
        }
        let _just_made = roots.set(Ok(store));
    }
    let key = match &tls.identity {
        None => None,
        Some((chain, key)) => Some(identity(chain, key, &provider).map_err(value)?),
    };
    let verifier = Verifier {
        roots,
        pinned,
        hostname,
        verify: tls.verify,
        check_name: tls.check_name,
        provider: provider.clone(),
        state: state.clone(),
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| JetError::Internal(e.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_cert_resolver(Arc::new(Identity { key, state }));
    Ok(config)
}

fn certificates(given: &[Vec<u8>]) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut all = Vec::new();
    for bytes in given {
        if bytes.windows(11).any(|window| window == b"-----BEGIN ") {
            for cert in CertificateDer::pem_slice_iter(bytes) {
                all.push(cert.map_err(|e| format!("not a PEM certificate: {e}"))?);
            }
        } else {
            all.push(CertificateDer::from(bytes.clone()));
        }
    }
    Ok(all)
}

fn identity(chain: &[u8], key: &[u8], provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, String> {
    let chain = certificates(&[chain.to_vec()])?;
    if chain.is_empty() {
        return Err("there is no certificate in cert".into());
    }
    if key.windows(9).any(|window| window == b"ENCRYPTED") {
        return Err("the private key is encrypted: decrypt it first, for example with `openssl pkey`".into());
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| "there is no PEM private key in key".to_owned())?;
    let key = CertifiedKey::from_der(chain, key, provider);
    key.map(Arc::new).map_err(|e| match e {
        Error::InconsistentKeys(_) => "the private key does not belong to the certificate".to_owned(),
        other => format!("the private key cannot be used: {other}"),
    })
}

/// Loads the system's certificates. Unreadable ones are skipped, as in OpenSSL.
fn system_roots() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(found.certs);
    match (store.is_empty(), found.errors.first()) {
        (false, _) => Ok(store),
        (true, Some(error)) => Err(format!("the system's CA certificates cannot be read: {error}")),
        (true, None) => Err("this system has no CA certificates".into()),
    }
}

struct Verifier {
    roots: OnceLock<Result<RootCertStore, String>>,
    /// Trusted certificates in DER: a server may present one of them as its own.
    pinned: Vec<CertificateDer<'static>>,
    hostname: Option<ServerName<'static>>,
    verify: bool,
    check_name: bool,
    provider: Arc<CryptoProvider>,
    state: Weak<ConnectionState>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

impl Verifier {
    fn check(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        address: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), CertificateRejected> {
        let cert = ParsedCertificate::try_from(end_entity)?;
        let roots =
            self.roots.get_or_init(system_roots).as_ref().map_err(|cause| CertificateRejected::Text(cause.clone()))?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        match verify_server_cert_signed_by_trust_anchor(&cert, roots, intermediates, now, algorithms) {
            // A self-signed certificate that is itself trusted: this check is the last one, and all others passed.
            Err(Error::InvalidCertificate(CertificateError::Other(other)))
                if other.to_string().contains(SELF_SIGNED) && self.pinned.contains(end_entity) => {}
            checked => checked?,
        }
        if !self.check_name {
            return Ok(());
        }
        let name = self.hostname.as_ref().unwrap_or(address);
        match verify_server_name(&cert, name) {
            Ok(()) => Ok(()),
            Err(error) => {
                // A server discovered by IP address presents the name that all servers share.
                let shared = if self.hostname.is_none() {
                    self.state.upgrade().and_then(|state| state.attempt().tls_name())
                } else {
                    None
                };
                let shared = shared.and_then(|name| ServerName::try_from(name).ok());
                match shared {
                    Some(name) if verify_server_name(&cert, &name).is_ok() => Ok(()),
                    _ => Err(error.into()),
                }
            }
        }
    }
}

/// Reason of a rejected certificate.
enum CertificateRejected {
    Text(String),
    Tls(Error),
}

impl From<Error> for CertificateRejected {
    fn from(error: Error) -> Self {
        CertificateRejected::Tls(error)
    }
}

const NOT_TRUSTED: &str = "not signed by a CA that is trusted here: pass the CA with tls=jetarrow.TLS(ca=...)";
/// webpki's error for a CA certificate that a server presents as its own.
const SELF_SIGNED: &str = "CaUsedAsEndEntity";

/// Describes the error, and the action to take.
pub fn explain(error: &Error) -> String {
    use CertificateError::*;
    let Error::InvalidCertificate(error) = error else { return error.to_string() };
    match error {
        UnknownIssuer => format!("its certificate {NOT_TRUSTED}"),
        Other(other) if other.to_string().contains(SELF_SIGNED) => {
            format!("its certificate is self-signed and {NOT_TRUSTED}")
        }
        Expired | ExpiredContext { .. } => "its certificate has expired: it must be renewed at the server".into(),
        NotValidYet | NotValidYetContext { .. } => "its certificate is not valid yet: compare the clocks".into(),
        NotValidForNameContext { expected, presented } => {
            let names = presented.iter().map(|name| name_only(name)).collect::<Vec<_>>().join(", ");
            let names = if names.is_empty() { "none".into() } else { names };
            format!(
                "its certificate is not for {:?}, only for: {names}; connect by such a name, or give it as tls_hostname",
                expected.to_str()
            )
        }
        NotValidForName => {
            "its certificate is for another host name: connect by that name, or give it as tls_hostname".into()
        }
        other => format!("its certificate is not valid: {other}"),
    }
}

/// Extracts the name from webpki's formats `DnsName("localhost")` and `IpAddress(127.0.0.1)`.
fn name_only(name: &str) -> &str {
    let inner = name.split_once('(').map_or(name, |(_, rest)| rest.trim_end_matches(')'));
    inner.trim_matches('"')
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.verify
            && let Err(refused) = self.check(end_entity, intermediates, server_name, now)
        {
            let (text, error) = match refused {
                CertificateRejected::Text(text) => (text.clone(), Error::General(text)),
                CertificateRejected::Tls(error) => (explain(&error), error),
            };
            if let Some(state) = self.state.upgrade() {
                state.attempt().refused_certificate(text);
            }
            return Err(error);
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Client certificate resolver, which records that the server asked for a certificate.
struct Identity {
    key: Option<Arc<CertifiedKey>>,
    state: Weak<ConnectionState>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

impl ResolvesClientCert for Identity {
    fn resolve(&self, _issuers: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        if self.key.is_none()
            && let Some(state) = self.state.upgrade()
        {
            state.attempt().asked_for_certificate();
        }
        self.key.clone()
    }

    fn has_certs(&self) -> bool {
        self.key.is_some()
    }
}
