//! Panics as errors.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{JetError, Result};

/// Does the work; a panic in it becomes an error. For work that Python or a `Drop` calls.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(error_of)
}

thread_local! {
    static UNTRUSTED: Cell<bool> = const { Cell::new(false) };
}

/// Has upstream's code read what anybody may have written: None where it panics, which is then nobody's defect.
pub fn untrusted<T>(work: impl FnOnce() -> T) -> Option<T> {
    let before = UNTRUSTED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    UNTRUSTED.set(before);
    done.ok()
}

/// Has all panics told to `report`, and nothing printed: with the words, and where it was.
pub fn report_panics(report: impl Fn(String) + Send + Sync + 'static) {
    std::panic::set_hook(Box::new(move |panic| {
        if UNTRUSTED.get() {
            return;
        }
        let text = text_of(panic.payload());
        report(panic.location().map_or(text.clone(), |place| format!("{text} ({place})")));
    }));
}

/// The error that a panic becomes.
pub fn error_of(panic: Box<dyn Any + Send>) -> JetError {
    JetError::Internal(text_of(&*panic))
}

/// What a panic says.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let fixed = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    fixed.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".into())
}
