//! A registry, with what it has answered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

use crate::answers::{Reference, Refused, Register, Registered, SCHEMA_NOT_FOUND, Schema};
use crate::http::{Credentials, Http};
use base::error::{JetError, RegistryFailure, Result};
use base::lock::lock;
use client::tls::Tls;
use columns::avro::{AvroSchema, with_references};
use columns::framed::{self, WriterSchema, frame};
use columns::protobuf::{MessageNames, files_of, set_of};

/// Time in which an id that the registry does not have is asked for again: its followers may be behind.
const NOT_FOUND_RETRY: Duration = Duration::from_secs(1);

/// The format of payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    Avro,
    Protobuf,
}

impl Format {
    pub(crate) fn query(self) -> &'static str {
        match self {
            Format::Avro => "",
            // Descriptors instead of the text of a file.
            Format::Protobuf => "format=serialized",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Format::Avro => "AVRO",
            Format::Protobuf => "PROTOBUF",
        }
    }
}

/// A schema that needs no registry.
#[derive(Clone, Debug)]
pub enum NativeSchema {
    /// JSON.
    Avro(String),
    /// A descriptor set, and the name of a message.
    Protobuf(Vec<u8>, String),
}

impl NativeSchema {
    /// Returns the full name of the record or message.
    fn name(&self) -> Result<String> {
        match self {
            NativeSchema::Avro(text) => {
                let schema = AvroSchema::parse(text).map_err(|reason| JetError::Value(format!("schema: {reason}")))?;
                Ok(schema.title().to_owned())
            }
            NativeSchema::Protobuf(_, name) => Ok(name.trim_start_matches('.').to_owned()),
        }
    }
}

pub struct Options {
    pub url: String,
    pub credentials: Credentials,
    pub tls: Option<Tls>,
    /// Bound of a request with its repetitions.
    pub timeout: Duration,
}

/// A schema of an id.
#[derive(Clone)]
struct Fetched {
    writer: WriterSchema,
    /// The Avro schema, or the descriptor set.
    whole: Vec<u8>,
}

type Schemas = HashMap<(u32, Format), Arc<OnceCell<Fetched>>>;
type Frames = HashMap<(String, Vec<u8>), Vec<u8>>;

pub struct Registry {
    http: Http,
    schemas: Mutex<Schemas>,
    /// Frames by subject and schema.
    frames: Mutex<Frames>,
}

impl Registry {
    pub fn new(options: &Options) -> Result<Registry> {
        let http = Http::new(&options.url, &options.credentials, options.tls.as_ref(), options.timeout)?;
        Ok(Registry { http, schemas: Mutex::default(), frames: Mutex::default() })
    }

    /// Returns the address without secrets.
    pub fn url(&self) -> &str {
        self.http.url()
    }

    /// Returns the schema of an id, which is fetched once.
    pub async fn writer(&self, id: u32, format: Format) -> Result<WriterSchema> {
        Ok(self.fetched(id, format).await?.writer)
    }

    /// Returns the schema of a payload; `None` if the payload names none that can be used.
    pub async fn schema_of(&self, payload: &[u8], format: Format) -> Result<Option<NativeSchema>> {
        let Some((id, rest)) = framed::id(payload) else { return Ok(None) };
        let Fetched { writer, whole } = self.fetched(id, format).await?;
        Ok(match writer {
            WriterSchema::Unusable(_) => None,
            WriterSchema::Avro(_) => String::from_utf8(whole).ok().map(NativeSchema::Avro),
            WriterSchema::Protobuf(names) => {
                let name = framed::indexes(rest).and_then(|(indexes, _)| names.name(&indexes).map(str::to_owned));
                name.map(|name| NativeSchema::Protobuf(whole, name))
            }
        })
    }

    /// Returns the frame of payloads of a schema. Without a subject it is the name of the record or message. `register`:
    /// a schema that the subject does not have is registered.
    pub async fn frame(&self, subject: Option<&str>, schema: &NativeSchema, register: bool) -> Result<Vec<u8>> {
        let name;
        let subject = match subject {
            Some(subject) => subject,
            None => {
                name = schema.name()?;
                &name
            }
        };
        let key = match schema {
            NativeSchema::Avro(text) => text.clone().into_bytes(),
            NativeSchema::Protobuf(set, name) => [set.as_slice(), name.as_bytes()].concat(),
        };
        let key = (subject.to_owned(), key);
        if let Some(found) = lock(&self.frames).get(&key) {
            return Ok(found.clone());
        }
        let made = match schema {
            NativeSchema::Avro(text) => {
                let document = Register { schema: text, kind: None, references: &[] };
                frame(self.id_of(subject, &document, register).await?.id, None)
            }
            NativeSchema::Protobuf(set, name) => self.frame_of_message(subject, set, name, register).await?,
        };
        lock(&self.frames).insert(key, made.clone());
        Ok(made)
    }

    /// Returns the latest schema of a subject and the frame of its payloads; of a Protobuf file its first message.
    pub async fn latest(&self, subject: &str, format: Format) -> Result<(NativeSchema, Vec<u8>)> {
        let what = format!("the latest schema of subject {subject:?}");
        let schema: Schema = self.get(&["subjects", subject, "versions", "latest"], format.query(), &what).await?;
        let id = schema.id.ok_or_else(|| self.failed(&what, "its answer has no id".into(), None, None))?;
        let first = frame(id, (format == Format::Protobuf).then_some(&[0]));
        let native = self.schema_of(&first, format).await?;
        let native = native.ok_or_else(|| {
            self.failed(&what, format!("schema {id} is no usable {} schema", format.name()), None, None)
        })?;
        Ok((native, first))
    }

    async fn fetched(&self, id: u32, format: Format) -> Result<Fetched> {
        let cell = lock(&self.schemas).entry((id, format)).or_default().clone();
        let found = cell.get_or_try_init(|| self.fetch(id, format)).await?;
        Ok(found.clone())
    }

    async fn fetch(&self, id: u32, format: Format) -> Result<Fetched> {
        let what = format!("schema {id}");
        let unusable = |reason: String| Fetched { writer: WriterSchema::Unusable(reason.into()), whole: Vec::new() };
        let number = id.to_string();
        let path = ["schemas", "ids", &number];
        let answer = self.http.ask(&path, format.query(), None, NOT_FOUND_RETRY).await;
        let answer = answer.map_err(|cause| self.failed(&what, cause, None, Some(id)))?;
        if answer.status == 404 && Refused::of(&answer.body).error_code == Some(SCHEMA_NOT_FOUND) {
            return Ok(unusable("the registry does not have it".into()));
        }
        let schema: Schema = self.parsed(answer.status, &answer.body, &what, Some(id))?;
        let kind = schema.kind.as_deref().unwrap_or("AVRO");
        if !kind.eq_ignore_ascii_case(format.name()) {
            return Ok(unusable(format!("it is of the format {kind}, not {}", format.name())));
        }
        let others = self.references(&schema, &what, format).await?;
        let made = match format {
            Format::Avro => with_references(&schema.schema, &others).and_then(|text| {
                Ok(Fetched { writer: WriterSchema::Avro(AvroSchema::parse(&text)?), whole: text.into_bytes() })
            }),
            Format::Protobuf => files(&schema.schema, &others),
        };
        Ok(made.unwrap_or_else(unusable))
    }

    async fn frame_of_message(&self, subject: &str, set: &[u8], name: &str, register: bool) -> Result<Vec<u8>> {
        let (files, indexes) = files_of(set, name).map_err(|reason| JetError::Value(format!("schema: {reason}")))?;
        let mut references: Vec<Reference> = Vec::new();
        let last = files.len() - 1;
        for (at, file) in files.iter().enumerate() {
            let text = BASE64_STANDARD.encode(&file.bytes);
            let used: Vec<_> = references.iter().filter(|there| file.imports.contains(&there.name)).cloned().collect();
            let document = Register { schema: &text, kind: Some(Format::Protobuf.name()), references: &used };
            if at == last {
                return Ok(frame(self.id_of(subject, &document, register).await?.id, Some(&indexes)));
            }
            // An imported file is a subject of its own, with the name of the file.
            let mut found = self.id_of(&file.name, &document, register).await?;
            if found.version.is_none() {
                found = self.id_of(&file.name, &document, false).await?;
            }
            let what = format!("subject {:?}", file.name);
            let version =
                found.version.ok_or_else(|| self.failed(&what, "its answer has no version".into(), None, None))?;
            references.push(Reference { name: file.name.clone(), subject: file.name.clone(), version });
        }
        Err(JetError::Internal("a message without a file".into()))
    }

    async fn id_of(&self, subject: &str, document: &Register<'_>, register: bool) -> Result<Registered> {
        let what = format!("the schema of subject {subject:?}");
        let path: &[&str] = if register { &["subjects", subject, "versions"] } else { &["subjects", subject] };
        self.post(path, document, &what).await
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &[&str], query: &str, what: &str) -> Result<T> {
        let answer = self.http.ask(path, query, None, Duration::ZERO).await;
        let answer = answer.map_err(|cause| self.failed(what, cause, None, None))?;
        self.parsed(answer.status, &answer.body, what, None)
    }

    async fn post<T: DeserializeOwned>(&self, path: &[&str], document: &impl Serialize, what: &str) -> Result<T> {
        let body = serde_json::to_vec(document).map_err(|err| JetError::Internal(err.to_string()))?;
        let answer = self.http.ask(path, "", Some(&body), Duration::ZERO).await;
        let answer = answer.map_err(|cause| self.failed(what, cause, None, None))?;
        self.parsed(answer.status, &answer.body, what, None)
    }

    fn parsed<T: DeserializeOwned>(&self, status: u16, body: &[u8], what: &str, id: Option<u32>) -> Result<T> {
        if status != 200 {
            let refused = Refused::of(body);
            return Err(self.failed(what, refused.text(status), Some((status, refused.error_code)), id));
        }
        serde_json::from_slice(body).map_err(|_| {
            self.failed(what, "its answer is not that of a schema registry".into(), Some((status, None)), id)
        })
    }

    pub(crate) fn failed(
        &self,
        what: &str,
        cause: String,
        status: Option<(u16, Option<i64>)>,
        schema_id: Option<u32>,
    ) -> JetError {
        let (status, code) = status.map_or((None, None), |(status, code)| (Some(status), code));
        let (url, what) = (self.url().to_owned(), what.to_owned());
        JetError::Registry(Box::new(RegistryFailure { url, what, cause, status, code, schema_id }))
    }
}

/// Returns a Protobuf schema: its file and those that it imports, in base64.
fn files(main: &str, others: &[String]) -> Result<Fetched, String> {
    let decode = |text: &str| {
        BASE64_STANDARD.decode(text.trim()).map_err(|_| {
            "the registry answers with the text of the file; it has to support format=serialized".to_owned()
        })
    };
    let mut files = others.iter().map(|text| decode(text)).collect::<Result<Vec<_>, _>>()?;
    let main = decode(main)?;
    let names = MessageNames::of_file(&main)?;
    files.push(main);
    let whole = set_of(files.iter().map(Vec::as_slice));
    Ok(Fetched { writer: WriterSchema::Protobuf(Arc::new(names)), whole })
}
