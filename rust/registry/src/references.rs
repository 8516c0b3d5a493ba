//! The schemas that a schema refers to, each after those that it refers to itself.

use std::collections::HashSet;

use crate::answers::{Reference, Schema};
use crate::registry::{Format, Registry};
use base::error::Result;

/// Number of schemas that one schema may use.
const MAX_REFERENCES: usize = 1_000;

impl Registry {
    /// Fetches the texts of the schemas that `of` refers to.
    pub(crate) async fn references(&self, of: &Schema, what: &str, format: Format) -> Result<Vec<String>> {
        let mut texts = Vec::new();
        let mut begun = HashSet::new();
        // References to fetch, and texts whose references are fetched.
        let mut stack: Vec<Step> = of.references.iter().rev().cloned().map(Step::Fetch).collect();
        while let Some(step) = stack.pop() {
            let reference = match step {
                Step::Done(text) => {
                    texts.push(text);
                    continue;
                }
                Step::Fetch(reference) => reference,
            };
            if !begun.insert((reference.subject.clone(), reference.version)) {
                continue;
            }
            if begun.len() > MAX_REFERENCES {
                return Err(self.failed(what, format!("it uses more than {MAX_REFERENCES} other schemas"), None, None));
            }
            let version = reference.version.to_string();
            let path = ["subjects", &reference.subject, "versions", &version];
            let what = format!("{what}, which refers to version {version} of subject {:?}", reference.subject);
            let schema: Schema = self.get(&path, format.query(), &what).await?;
            stack.push(Step::Done(schema.schema));
            stack.extend(schema.references.into_iter().rev().map(Step::Fetch));
        }
        Ok(texts)
    }
}

enum Step {
    Fetch(Reference),
    Done(String),
}
