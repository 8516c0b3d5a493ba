//! Copies of subjects and small payloads of single messages, in shared blocks.

use base::error::JetError;
use wire::arena::Arena;
use wire::nats::Subject;

/// The last subject, and blocks for copies.
#[derive(Default)]
pub struct Copies {
    pub arena: Arena,
    /// The last subject, because most messages have the same one as their predecessor.
    subject: Option<Subject>,
}

impl Copies {
    /// Validates and returns the subject. The last subject is not validated again.
    pub fn subject(
        &mut self,
        subject: &str,
        check: impl FnOnce(&str) -> Result<(), JetError>,
    ) -> Result<Subject, JetError> {
        if let Some(last) = self.subject.as_ref().filter(|last| last.as_str() == subject) {
            return Ok(last.clone());
        }
        check(subject)?;
        Ok(self.subject.insert(Subject::from(subject)).clone())
    }
}
