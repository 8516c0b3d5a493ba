//! Priority groups (ADR-42): which of a pull consumer's clients gets messages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use base::lock::lock;
use wire::message::Message;

/// Who asks, and when it wants to be served.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PriorityGroup {
    pub name: String,
    /// Only while at least so many messages are to come; 0 is always.
    pub min_pending: u64,
    /// Only while at least so many wait for their acks; 0 is always.
    pub min_ack_pending: u64,
    /// Those with lower numbers first.
    pub priority: u8,
}

/// The ids by which the server knows the client that a group is pinned to, by group.
pub type Pins = Arc<Mutex<HashMap<String, String>>>;

/// A client's place in a group.
#[derive(Clone, Debug)]
pub struct Member {
    group: PriorityGroup,
    pins: Pins,
}

impl Member {
    pub fn new(group: PriorityGroup, pins: Pins) -> Self {
        Member { group, pins }
    }

    /// What a request says of it, to be put behind other fields.
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

    /// Takes the pin's id out of a message of the stream.
    pub fn hear(&self, message: &Message) {
        let Some(pin) = message.header("Nats-Pin-Id") else { return };
        let mut pins = lock(&self.pins);
        if pins.get(&self.group.name) != Some(&pin) {
            pins.insert(self.group.name.clone(), pin);
        }
    }

    /// The server has pinned another client, or none.
    pub fn unpinned(&self) {
        lock(&self.pins).remove(&self.group.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_told_until_it_is_lost() {
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
