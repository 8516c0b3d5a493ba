//! The state of the link to the server.

/// The state of the link to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// How often the link broke. What was in flight when it rises may be lost.
    pub breaks: u64,
    pub up: bool,
    /// No reconnect will be tried any more.
    pub closed: bool,
    /// How many publishes and subscriptions the server refused.
    pub refusals: u64,
}
