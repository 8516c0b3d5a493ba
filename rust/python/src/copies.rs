//! Subjects and small payloads of messages that come one by one, many to an allocation.

use base::error::JetError;
use wire::arena::Arena;
use wire::nats::Subject;

#[derive(Default)]
pub struct Copies {
    pub arena: Arena,
    /// The last one: nearly always the next one too.
    subject: Option<Subject>,
}

impl Copies {
    /// The subject, if it passes the check; what has passed it once need not again.
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
