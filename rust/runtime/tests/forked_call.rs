//! A call into Python that forks. Alone in its process, because finalization begins in it.

use std::time::{Duration, Instant};

use runtime::finalization::{self, PythonCall};

#[test]
fn a_forked_child_does_not_wait_for_the_call_that_it_is_in() {
    let call = PythonCall::begin();
    assert!(call.is_some());
    finalization::forked();
    drop(call);
    let begun = Instant::now();
    finalization::begin(Duration::from_secs(60));
    assert!(begun.elapsed() < Duration::from_secs(30));
}
