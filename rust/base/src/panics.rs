//! Panics as errors.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{JetError, Result};

/// Runs the work and turns a panic into an error. For work that Python or a `Drop` calls.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(error_of)
}

thread_local! {
    static UNTRUSTED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a dependency's code on untrusted bytes. A panic is not reported as a defect; the result is then `None`.
pub fn untrusted<T>(work: impl FnOnce() -> T) -> Option<T> {
    let before = UNTRUSTED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    UNTRUSTED.set(before);
    done.ok()
}

/// Sets a panic hook that passes the text and location of each panic to `report` and prints nothing.
pub fn report_panics(report: impl Fn(String) + Send + Sync + 'static) {
    std::panic::set_hook(Box::new(move |panic| {
        if UNTRUSTED.get() {
            return;
        }
        let text = text_of(panic.payload());
        report(panic.location().map_or(text.clone(), |place| format!("{text} ({place})")));
    }));
}

/// Returns the error for a panic's payload.
pub fn error_of(panic: Box<dyn Any + Send>) -> JetError {
    JetError::Internal(text_of(&*panic))
}

/// Returns the text of a panic's payload.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let fixed = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    fixed.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".into())
}
