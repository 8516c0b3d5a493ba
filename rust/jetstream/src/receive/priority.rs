//! Priority groups (ADR-42): distribution of messages among a pull consumer's clients.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use base::lock::lock;
use wire::message::Message;

/// Group of a request, and the conditions under which the server answers it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PriorityGroup {
    pub name: String,
    /// Served only if at least this many messages are pending; 0: always.
    pub min_pending: u64,
    /// Served only if at least this many messages wait for acks; 0: always.
    pub min_ack_pending: u64,
    /// Lower numbers are served first.
    pub priority: u8,
}

/// IDs of the server for the client that a group is pinned to, by group.
pub type Pins = Arc<Mutex<HashMap<String, String>>>;

/// A client's membership in a group.
#[derive(Clone, Debug)]
pub struct Member {
    group: PriorityGroup,
    pins: Pins,
}

impl Member {
    pub fn new(group: PriorityGroup, pins: Pins) -> Self {
        Member { group, pins }
    }

    /// Returns the request's fields, to be appended to others.
    pub fn json(&self) -> String {
        let PriorityGroup { name, min_pending, min_ack_pending, priority } = &self.group;
        let mut text = format!(",\"group\":{}", serde_json::Value::from(name.as_str()));
        for (key, value) in
            [("min_pending", *min_pending), ("min_ack_pending", *min_ack_pending), ("priority", u64::from(*priority))]
        {
            if value > 0 {
                text.push_str(&format!(",\"{key}\":{value}"));
            }
        }
        if let Some(pin) = lock(&self.pins).get(name) {
            text.push_str(&format!(",\"id\":{}", serde_json::Value::from(pin.as_str())));
        }
        text
    }

    /// Stores the pin ID of a received message.
    pub fn hear(&self, message: &Message) {
        let Some(pin) = message.header("Nats-Pin-Id") else { return };
        let mut pins = lock(&self.pins);
        if pins.get(&self.group.name) != Some(&pin) {
            pins.insert(self.group.name.clone(), pin);
        }
    }

    /// Removes the pin ID: the server has pinned another client, or none.
    pub fn unpinned(&self) {
        lock(&self.pins).remove(&self.group.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_has_the_pin_id_until_the_pin_is_lost() {
        let group = PriorityGroup { name: "a\"b".into(), min_pending: 5, priority: 3, ..PriorityGroup::default() };
        let member = Member::new(group, Pins::default());
        let plain = r#","group":"a\"b","min_pending":5,"priority":3"#;
        assert_eq!(member.json(), plain);
        member.hear(&Message::new("s", "", b"NATS/1.0\r\nNats-Pin-Id: x1\r\n\r\n", b""));
        assert_eq!(member.json(), format!("{plain},\"id\":\"x1\""));
        member.unpinned();
        assert_eq!(member.json(), plain);
    }
}
