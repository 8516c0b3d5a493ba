//! Credentials, read again for every attempt to connect, so that renewed ones are used.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use nkeys::KeyPair;

use base::error::{JetError, Result};
use wire::nats::Auth;

/// Future of a user callback.
pub type CallbackAnswer<T> = Pin<Box<dyn Future<Output = Result<T>> + Send + Sync>>;
pub type Callback<A, T> = Arc<dyn Fn(A) -> CallbackAnswer<T> + Send + Sync>;

#[derive(Clone)]
pub enum Text {
    Fixed(String),
    Callback(Callback<(), String>),
}

impl Text {
    async fn get(&self) -> Result<String> {
        match self {
            Text::Fixed(text) => Ok(text.clone()),
            Text::Callback(callback) => callback(()).await,
        }
    }
}

/// Source of a user's JWT and seed.
#[derive(Clone)]
pub enum Source {
    /// File with both, in the format of `nsc`.
    File(PathBuf),
    /// Text of such a file.
    Raw(String),
    /// A JWT file and a seed file.
    Pair(PathBuf, PathBuf),
    /// File with a seed and no JWT: the server has the public key in its configuration.
    SeedFile(PathBuf),
    Seed(String),
}

/// All credentials of a connection. It has no `Debug`, so that logs cannot print it.
#[derive(Clone, Default)]
pub struct Credentials {
    pub user: Option<Text>,
    pub password: Option<Text>,
    pub token: Option<Text>,
    pub source: Option<Source>,
    pub jwt: Option<Callback<(), String>>,
    /// Callback that returns the public nkey, for `sign` without a JWT.
    pub nkey: Option<Callback<(), String>>,
    /// Callback that signs the server's nonce; returns base64.
    pub sign: Option<Callback<String, String>>,
}

struct Keys {
    jwt: Option<String>,
    pair: KeyPair,
}

impl Credentials {
    /// Reads the files once, so that `connect` fails before it sends anything.
    pub fn check(&self) -> Result<()> {
        self.source.as_ref().map_or(Ok(()), |source| source.read().map(drop))
    }

    /// Builds the credentials for a server with this nonce. `url` is the user and password of its address, used as the
    /// last resort.
    pub async fn answer(&self, nonce: &[u8], url: (Option<String>, Option<String>)) -> Result<Auth> {
        let mut auth = Auth::new();
        if !nonce.is_empty() && (self.source.is_some() || self.sign.is_some()) {
            if let Some(source) = &self.source {
                let Keys { jwt, pair } = source.read()?;
                let signature = pair.sign(nonce).map_err(|_| bad("the seed cannot sign"))?;
                auth.nkey = jwt.is_none().then(|| pair.public_key());
                auth.jwt = jwt;
                auth.signature = Some(signature);
            } else if let Some(sign) = &self.sign {
                let text = sign(String::from_utf8_lossy(nonce).into_owned()).await?;
                let signature = any_base64(text.trim().as_bytes());
                auth.signature = Some(signature.ok_or_else(|| bad("signature_cb must return base64"))?);
                if let Some(jwt) = &self.jwt {
                    auth.jwt = Some(jwt(()).await?.trim().to_owned());
                } else if let Some(nkey) = &self.nkey {
                    auth.nkey = Some(nkey(()).await?.trim().to_owned());
                }
            }
            // Sent in addition, for an auth callout.
            if let Some(token) = &self.token {
                auth.token = Some(token.get().await?);
            }
        } else if let (Some(user), Some(password)) = (&self.user, &self.password) {
            auth.username = Some(user.get().await?);
            auth.password = Some(password.get().await?);
        } else if let Some(token) = &self.token {
            auth.token = Some(token.get().await?);
        } else {
            match url {
                (Some(user), Some(password)) => (auth.username, auth.password) = (Some(user), Some(password)),
                (Some(token), None) => auth.token = Some(token),
                _ => {}
            }
        }
        Ok(auth)
    }
}

fn bad(cause: &str) -> JetError {
    JetError::Credentials { cause: cause.to_owned() }
}

fn any_base64(text: &[u8]) -> Option<Vec<u8>> {
    let lenient = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    [STANDARD, URL_SAFE].iter().find_map(|alphabet| GeneralPurpose::new(alphabet, lenient).decode(text).ok())
}

fn load(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|err| JetError::Io {
        what: path.display().to_string(),
        cause: err.to_string(),
        errno: err.raw_os_error(),
    })
}

impl Source {
    fn read(&self) -> Result<Keys> {
        let (jwt, seed) = match self {
            Source::File(path) => creds(&load(path)?)?,
            Source::Raw(text) => creds(text)?,
            Source::Pair(jwt, seed) => {
                let (jwt, seed) = (load(jwt)?, load(seed)?);
                let jwt = section(&jwt, "JWT").unwrap_or_else(|| jwt.trim().to_owned());
                (Some(jwt), section(&seed, "SEED").unwrap_or_else(|| seed.trim().to_owned()))
            }
            Source::SeedFile(path) => (None, seed_alone(&load(path)?)),
            Source::Seed(text) => (None, seed_alone(text)),
        };
        if jwt.as_ref().is_some_and(String::is_empty) {
            return Err(bad("there is no JWT in the credentials"));
        }
        let pair = KeyPair::from_seed(&seed).map_err(|_| bad("the nkey seed is not valid: it begins with SU"))?;
        Ok(Keys { jwt, pair })
    }
}

fn seed_alone(text: &str) -> String {
    section(text, "SEED").unwrap_or_else(|| text.trim().to_owned())
}

fn creds(text: &str) -> Result<(Option<String>, String)> {
    let find = |kind| section(text, kind).filter(|found| !found.is_empty());
    match (find("JWT"), find("SEED")) {
        (Some(jwt), Some(seed)) => Ok((Some(jwt), seed)),
        _ => Err(bad("a JWT and an nkey seed are needed, each under its BEGIN line, as in the .creds files of nsc")),
    }
}

/// Returns the line after `-----BEGIN ... <kind>-----`.
fn section(text: &str, kind: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| {
        let title = line.trim().trim_matches('-').trim();
        !(title.starts_with("BEGIN ") && title.ends_with(kind))
    });
    lines.next()?;
    lines.map(str::trim).find(|line| !line.is_empty()).filter(|line| !line.starts_with("---")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDS: &str = "\
-----BEGIN NATS USER JWT-----\r
ey.some.jwt\r
------END NATS USER JWT------\r
\r
************************* IMPORTANT *************************\r
\r
-----BEGIN USER NKEY SEED-----\r
SUSEED\r
------END USER NKEY SEED------\r
";

    #[test]
    fn creds_files_are_parsed() {
        assert_eq!(creds(CREDS), Ok((Some("ey.some.jwt".into()), "SUSEED".into())));
        let cut = CREDS.split("\r\n----").next().unwrap_or_default();
        for text in ["", "junk", cut, "-----BEGIN NATS USER JWT-----", "-----BEGIN NATS USER JWT-----\n------END"] {
            assert!(matches!(creds(text), Err(JetError::Credentials { .. })), "{text:?}");
        }
    }

    #[test]
    fn signatures_in_both_base64_alphabets_are_decoded() {
        for text in ["+/8=", "-_8=", "-_8", "+/8"] {
            assert_eq!(any_base64(text.as_bytes()), Some(vec![0xfb, 0xff]), "{text}");
        }
        assert_eq!(any_base64(b"no base64!"), None);
    }

    #[test]
    fn error_contains_no_secret() {
        let seed = "SUCANARYSEED";
        let Err(err) = Source::Seed(seed.into()).read() else { panic!("taken for a seed") };
        assert!(!format!("{err} {err:?}").contains(seed));
    }
}
