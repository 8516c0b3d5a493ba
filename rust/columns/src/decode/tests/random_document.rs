//! Generator of random documents, mostly valid, for the schema of the random tests.

/// Pseudorandom numbers with a fixed seed.
pub(super) struct RandomDocument(pub(super) u64);

impl RandomDocument {
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }

    pub(super) fn pick<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        texts[self.roll(texts.len())]
    }

    pub(super) fn number(&mut self) -> String {
        match self.roll(6) {
            0 => self
                .pick(&[
                    "0",
                    "-0",
                    "-0.0",
                    "1e400",
                    "5e-324",
                    "9223372036854775807",
                    "-9223372036854775808",
                    "18446744073709551615",
                    "1e22",
                    "1e23",
                ])
                .into(),
            1 => format!("{}", self.roll(1000) as i64 - 500),
            2 => format!("{}.{}", self.roll(100), self.roll(1_000_000)),
            3 => format!("-{}.{}e{}", self.roll(10), self.roll(usize::MAX >> 12), self.roll(600) as i64 - 300),
            4 => format!("{}{}", 1 + self.roll(usize::MAX >> 12), self.roll(usize::MAX >> 12)),
            _ => format!("{:e}", f64::from_bits((self.roll(1 << 32) << 31) as u64 & !(1 << 62))),
        }
    }

    pub(super) fn string(&mut self) -> String {
        let pieces = [
            "a",
            "bcdefgh",
            "é",
            "😀",
            "\\n",
            "\\\"",
            "\\\\",
            "\\u0041",
            "\\ud83d\\ude00",
            "\\/",
            " ",
            "longer text",
            "\u{7f}",
        ];
        let text: String = (0..self.roll(6)).map(|_| self.pick(&pieces)).collect();
        let wrong =
            if self.roll(60) == 0 { self.pick(&["\\ud800", "\\x", "\n", "\\u00", "\"", "\\ude00x"]) } else { "" };
        format!("\"{text}{wrong}\"")
    }

    pub(super) fn value(&mut self, depth: usize) -> String {
        let space = self.pick(&["", "", "", " ", "\n\t"]);
        match self.roll(if depth > 3 { 6 } else { 9 }) {
            0 | 1 => self.number(),
            2 | 3 => self.string(),
            4 => self.pick(&["true", "false", "null"]).into(),
            5 => {
                if self.roll(20) == 0 {
                    self.pick(&["tru", "nan", "", "[1,]", "{,}", "01", "1.", "--1", "'a'"]).into()
                } else {
                    self.number()
                }
            }
            6 => self.object(depth + 1),
            _ => {
                let items: Vec<String> = (0..self.roll(4)).map(|_| self.value(depth + 1)).collect();
                format!("[{space}{}{space}]", items.join(&format!("{space},")))
            }
        }
    }

    /// Returns an object with names of the schema and others, and values mostly of the right type.
    pub(super) fn object(&mut self, depth: usize) -> String {
        let mut members = Vec::new();
        for _ in 0..self.roll(7) {
            let name = self.pick(&["i", "f", "s", "b", "l", "o", "m", "x", "\\u0069"]);
            let right = self.roll(8) > 0;
            let value = match name {
                "i" if right => (self.roll(1 << 20) as i64 - 1000).to_string(),
                "f" if right => self.number(),
                "s" if right => self.string(),
                "b" if right => self.pick(&["true", "false", "null"]).into(),
                "l" if right => {
                    format!("[{}]", (0..self.roll(4)).map(|_| self.number()).collect::<Vec<_>>().join(", "))
                }
                "o" if right && depth < 4 => self.object(depth + 1),
                "m" if right => {
                    let pairs: Vec<_> =
                        (0..self.roll(4)).map(|_| format!("\"{}\":{}", self.roll(3), self.string())).collect();
                    format!("{{{}}}", pairs.join(","))
                }
                _ => self.value(depth),
            };
            let space = self.pick(&["", "", " "]);
            members.push(format!("{space}\"{name}\"{space}:{space}{value}{space}"));
        }
        format!("{{{}}}", members.join(","))
    }
}
