//! Whoever waits for a message is told by the task that takes the messages, and not by one that has to be woken first:
//! tasks are run in no order, and messages of several subscriptions have one.

use std::sync::{Arc, Mutex};

use super::Shared;
use crate::lock::lock;

pub type Ring = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub struct Bells(Mutex<Hung>);

#[derive(Default)]
struct Hung {
    last: u64,
    bells: Vec<(u64, Ring)>,
}

impl Bells {
    /// Rings all of them, each for the only time.
    pub fn ring(&self) {
        let rings = std::mem::take(&mut lock(&self.0).bells);
        rings.into_iter().for_each(|(_, ring)| ring());
    }
}

/// One that may ring until it is dropped.
pub struct Bell {
    shared: Arc<Shared>,
    number: u64,
}

impl Bell {
    pub(super) fn new(shared: Arc<Shared>, ring: Ring) -> Self {
        let number = {
            let mut hung = lock(&shared.bells.0);
            hung.last += 1;
            let number = hung.last;
            hung.bells.push((number, ring));
            number
        };
        Bell { shared, number }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let taken = {
            let mut hung = lock(&self.shared.bells.0);
            let place = hung.bells.iter().position(|(number, _)| *number == self.number);
            place.map(|place| hung.bells.swap_remove(place))
        };
        // What it holds is dropped without the lock.
        drop(taken);
    }
}
