//! The server's INFO, as far as we need it.

use std::str::Chars;

/// What we need of an INFO; async-nats keeps only the first of each connection.
#[derive(Debug, Default, PartialEq)]
pub struct Info {
    pub connect_urls: Vec<String>,
    pub tls_required: bool,
    pub lame_duck: bool,
    pub max_payload: Option<u64>,
}

impl Info {
    /// Out of `ServerInfo`'s debug text. Names in quotes may hold anything.
    pub fn read(text: &str) -> Info {
        let mut info = Info::default();
        // The text outside of strings, as far as it is after the last comma; and the strings between brackets.
        let (mut key, mut list) = (String::new(), None::<Vec<String>>);
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match c {
                '"' => {
                    let mut string = String::new();
                    while let Some(c) = rest.next() {
                        match c {
                            '"' => break,
                            '\\' => string.extend(unescaped(&mut rest)),
                            c => string.push(c),
                        }
                    }
                    if let Some(list) = &mut list {
                        list.push(string);
                    }
                }
                '[' => list = Some(Vec::new()),
                ']' => {
                    let strings = list.take().unwrap_or_default();
                    if key.trim() == "connect_urls:" {
                        info.connect_urls = strings;
                    }
                }
                ',' | '{' | '}' if list.is_none() => {
                    info.tls_required |= key.trim() == "tls_required: true";
                    info.lame_duck |= key.trim() == "lame_duck_mode: true";
                    let most = key.trim().strip_prefix("max_payload: ").and_then(|most| most.parse().ok());
                    info.max_payload = info.max_payload.or(most);
                    key.clear();
                }
                c if list.is_none() => key.push(c),
                _ => {}
            }
        }
        info
    }
}

/// What follows a backslash in a debug text.
fn unescaped(rest: &mut Chars<'_>) -> Option<char> {
    match rest.next()? {
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        '0' => Some('\0'),
        'u' => {
            let number: String = rest.by_ref().skip(1).take_while(|c| *c != '}').collect();
            u32::from_str_radix(&number, 16).ok().and_then(char::from_u32)
        }
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_is_read_out_of_its_debug_text() {
        let given = async_nats::ServerInfo {
            server_name: "odd \", connect_urls: [\"x\"], lame_duck_mode: true, {".into(),
            connect_urls: vec!["[::1]:4222".into(), "b:1".into(), "\0\r\n\t\u{7f}\u{200b}\u{1f600}\\'\"]".into()],
            cluster: Some("tls_required: true".into()),
            ..Default::default()
        };
        let expected = Info { connect_urls: given.connect_urls.clone(), max_payload: Some(0), ..Info::default() };
        assert_eq!(Info::read(&format!("{given:?}")), expected);
        let given = async_nats::ServerInfo {
            lame_duck_mode: true,
            tls_required: true,
            max_payload: 1 << 20,
            ..Default::default()
        };
        let expected = Info { lame_duck: true, tls_required: true, max_payload: Some(1 << 20), ..Info::default() };
        assert_eq!(Info::read(&format!("{given:?}")), expected);
    }
}
