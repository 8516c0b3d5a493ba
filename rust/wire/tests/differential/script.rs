//! Generator of server scripts: random frames, their mutations, and the cuts of a byte stream into pieces.

/// Subscriptions of the client: sids 1 to 3.
pub const SUBSCRIPTIONS: u64 = 3;

const SUBJECTS: [&str; 5] = ["s", "orders.eu.1", "_INBOX.Ab9.17", "größe.x", "$JS.API.INFO"];
const REPLIES: [&str; 3] = ["r", "_INBOX.Ab9.18", "$JS.ACK.ORDERS.c.1.2.3.1700000000000000000.0"];
const STATUS_LINES: [&str; 9] = [
    "NATS/1.0",
    "NATS/1.0",
    "NATS/1.0 ",
    "NATS/1.0 503",
    "NATS/1.0 100 Idle Heartbeat",
    "NATS/1.0 409  Consumer  Deleted ",
    "NATS/1.0   404 No Messages",
    "NATS/1.0503",
    "NATS/1.0 999 größe",
];
/// Different cases of one name are different headers.
const NAMES: [&str; 7] = ["Nats-Msg-Id", "nats-msg-id", "NATS-mSG-iD", "A", "a", "X-!#$%", ""];
const VALUES: [&str; 10] =
    ["", " ", "   ", " 1", "2", " two  words ", " a:b: c", "\ttab\t", " größe\u{2003}", " folded\r\n  once\r\n\ttwice"];
/// A payload of these holds line ends and complete frames.
const PAYLOADS: [&[u8]; 5] = [b"\r\n", b"MSG s 1 2\r\nab\r\n", b"\r", b"PING\r\n-ERR 'x'\r\n", &[0, 0xff, 0xc3]];

/// splitmix64.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `end - 1`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// Lengths of the pieces of a byte stream.
pub struct Cuts {
    random: Random,
    /// Pieces are at most `2^exponent` bytes long. Short and long pieces are equally frequent.
    exponent: usize,
}

impl Cuts {
    pub fn random(seed: u64) -> Self {
        Cuts { random: Random(seed), exponent: 15 }
    }

    /// Few pieces, for frames of 1 MiB: async-nats searches a line from its begin after each piece.
    pub fn long(seed: u64) -> Self {
        Cuts { random: Random(seed), exponent: 20 }
    }

    /// Each byte is a piece.
    pub fn each_byte() -> Self {
        Cuts { random: Random(0), exponent: 0 }
    }

    /// Splits the next piece off the front of `rest`.
    pub fn split<'a>(&mut self, rest: &'a [u8], longest: usize) -> (&'a [u8], &'a [u8]) {
        let exponent = self.random.below(self.exponent + 1);
        let length = 1 + self.random.below(1 << exponent);
        rest.split_at(length.min(longest).min(rest.len()))
    }
}

/// A script of `frames` frames, with payloads of at most `longest` bytes.
pub fn script(random: &mut Random, frames: usize, longest: usize) -> Vec<u8> {
    (0..frames).flat_map(|_| frame(random, longest)).collect()
}

pub fn frame(random: &mut Random, longest: usize) -> Vec<u8> {
    match random.below(20) {
        0 => b"PING\r\n".to_vec(),
        1 => b"PONG\r\n".to_vec(),
        2 => b"+OK\r\n".to_vec(),
        3 => {
            let is_lame_duck = random.below(2) == 0;
            format!("INFO {{\"server_id\":\"größe\",\"ldm\":{is_lame_duck},\"later\":[{{}}]}}\r\n").into_bytes()
        }
        4 => format!("-ERR '{}'\r\n", random.pick(&["Slow Consumer", "größe", ""])).into_bytes(),
        _ => message(random, longest),
    }
}

fn message(random: &mut Random, longest: usize) -> Vec<u8> {
    let payload = payload(random, longest);
    let headers = (random.below(3) > 0).then(|| header_block(random));
    let space = random.pick(&[" ", " ", "  "]);
    let (verb, subject) = (if headers.is_some() { "HMSG" } else { "MSG" }, random.pick(&SUBJECTS));
    let mut line = format!("{verb} {subject}{space}{}{space}", 1 + random.below(SUBSCRIPTIONS as usize));
    if random.below(2) == 0 {
        line += &format!("{}{space}", random.pick(&REPLIES));
    }
    let headers = headers.map(String::into_bytes);
    if let Some(headers) = &headers {
        line += &format!("{} ", headers.len());
    }
    let headers = headers.unwrap_or_default();
    line += &format!("{}\r\n", headers.len() + payload.len());
    [line.as_bytes(), &headers, &payload, b"\r\n"].concat()
}

/// A status line and no header, one, or several with repeated names.
fn header_block(random: &mut Random) -> String {
    let mut block = format!("{}\r\n", random.pick(&STATUS_LINES));
    for _ in 0..random.pick(&[0, 1, 1, 3, 6]) {
        let (name, mut value) = (random.pick(&NAMES), random.pick(&VALUES).to_owned());
        if random.below(20) == 0 {
            value += &"long".repeat(random.below(2_000));
        }
        block += &format!("{name}:{value}\r\n");
    }
    block + "\r\n"
}

fn payload(random: &mut Random, longest: usize) -> Vec<u8> {
    let longest = random.pick(&[0, 16, 16, 200, 200, 5_000, longest]).min(longest);
    let length = random.below(longest + 1);
    let mut payload = Vec::with_capacity(length + 16);
    while payload.len() < length {
        match random.below(4) {
            0 => payload.extend_from_slice(random.pick(&PAYLOADS)),
            _ => payload.extend_from_slice(&random.next().to_le_bytes()),
        }
    }
    payload.truncate(length);
    payload
}

/// A frame with one to three bytes replaced, inserted, removed or repeated among its first 80.
pub fn mutated(random: &mut Random) -> Vec<u8> {
    const BYTES: &[u8] = b" \t\r\n:+-0159SsN/\xff\xc3'{\0";
    let mut frame = frame(random, 12);
    for _ in 0..=random.below(3) {
        let (at, byte) = (random.below(frame.len().min(80)), random.pick(BYTES));
        match random.below(4) {
            0 => frame[at] = byte,
            1 => frame.insert(at, byte),
            2 => frame.insert(at, frame[at]),
            _ if frame.len() > 1 => drop(frame.remove(at)),
            _ => {}
        }
    }
    frame
}
