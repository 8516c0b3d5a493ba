//! Parsers of objects: the fields of a struct, the entries of a map.

use std::collections::{HashMap, HashSet};

use arrow_schema::Fields;

use super::column::{Bytes, ColumnDecoder};
use super::json::{Json, JsonStep, Parsed, Reason};
use super::rules::JsonRules;

/// Number of entries up to which a linear search is faster than a hash table.
const MAX_LINEAR_SEARCH: usize = 12;

/// Parses an object as keys and values. A repeated key has its last value, at its first position.
pub fn map(keys: &mut Bytes, items: &mut ColumnDecoder, json: &mut Json<'_>) -> Parsed<()> {
    let (start, first) = (json.at, items.len());
    let mut more = !json.open(b'{', b'}', "an object")?;
    while more {
        match json.key()? {
            Some(key) => keys.push(key),
            None => keys.push(&json.unescaped),
        }
        entry(keys.get(items.len()), items, json)?;
        more = json.more(b'}')?;
    }
    let distinct = match items.len() - first {
        0 | 1 => true,
        ..=MAX_LINEAR_SEARCH => (first..items.len()).all(|i| (first..i).all(|j| keys.get(i) != keys.get(j))),
        count => (first..items.len()).map(|i| keys.get(i)).collect::<HashSet<_>>().len() == count,
    };
    if distinct {
        return Ok(());
    }
    // A key is repeated, which is rare. Parses the object again with the positions of the last values.
    keys.truncate(first);
    items.truncate(first);
    json.at = start;
    let mut order: Vec<(Vec<u8>, usize)> = Vec::new();
    let mut known: HashMap<Vec<u8>, usize> = HashMap::new();
    more = !json.open(b'{', b'}', "an object")?;
    while more {
        let plain = json.key()?;
        let key = plain.unwrap_or(&json.unescaped).to_vec();
        json.colon()?;
        let index = *known.entry(key.clone()).or_insert(order.len());
        match order.get_mut(index) {
            Some((_, place)) => *place = json.at,
            None => order.push((key, json.at)),
        }
        json.skip()?;
        more = json.more(b'}')?;
    }
    let end = json.at;
    json.depth += 1;
    for (key, place) in order {
        keys.push(&key);
        json.at = place;
        items.parse(json)?;
    }
    json.depth -= 1;
    json.at = end;
    Ok(())
}

fn entry(key: &[u8], items: &mut ColumnDecoder, json: &mut Json<'_>) -> Parsed<()> {
    json.colon()?;
    items.parse(json).inspect_err(|_| {
        json.trace.push(JsonStep::Key(String::from_utf8_lossy(key).into_owned(), items.field.clone()));
    })
}

/// The fields of a struct.
#[derive(Debug)]
pub struct Members {
    pub fields: Fields,
    pub columns: Vec<ColumnDecoder>,
    /// The names in JSON, with quotes.
    tokens: Vec<Vec<u8>>,
    /// Index of the field that followed this one in the last object. The last entry is the index of the first field.
    after: Vec<usize>,
    by_name: HashMap<Vec<u8>, usize>,
}

impl Members {
    pub fn new(fields: &Fields, rules: &JsonRules, path: &str, depth: usize) -> Result<Members, String> {
        let mut columns = Vec::with_capacity(fields.len());
        for field in fields {
            columns.push(ColumnDecoder::new(field, rules, &inner(path, field.name()), depth)?);
        }
        Members::of(fields, columns, path)
    }

    pub fn of(fields: &Fields, columns: Vec<ColumnDecoder>, path: &str) -> Result<Members, String> {
        let mut by_name = HashMap::new();
        for (index, field) in fields.iter().enumerate() {
            if by_name.insert(field.name().clone().into_bytes(), index).is_some() {
                return Err(format!("the schema names column {:?} twice", inner(path, field.name())));
            }
        }
        let tokens = fields.iter().map(|field| token(field.name())).collect();
        let count = fields.len();
        let after = (1..=count).chain([0]).collect();
        Ok(Members { fields: fields.clone(), columns, tokens, after, by_name })
    }

    /// Parses an object as row `row`.
    pub fn parse(&mut self, row: usize, json: &mut Json<'_>) -> Parsed<()> {
        let mut previous = self.columns.len();
        let mut present = 0;
        let mut more = !json.open(b'{', b'}', "an object")?;
        while more {
            let found = self.member(previous, json)?;
            json.colon()?;
            if let Some(index) = found {
                let column = &mut self.columns[index];
                if column.len() == row {
                    present += 1;
                } else {
                    // A repeated name: the last value wins.
                    column.truncate(row);
                }
                let (start, depth) = (json.at, json.depth);
                if let Err(stop) = column.parse(json) {
                    if !json.recovers || !column.field.is_nullable() {
                        json.trace.push(JsonStep::Field(column.field.clone()));
                        return Err(stop);
                    }
                    column.truncate(row);
                    column.append_null();
                    (json.at, json.depth) = (start, depth);
                    json.skip()?;
                }
                previous = index;
            } else {
                json.skip()?;
            }
            more = json.more(b'}')?;
        }
        if present == self.columns.len() {
            return Ok(());
        }
        for column in self.columns.iter_mut().filter(|column| column.len() == row) {
            if !column.field.is_nullable() {
                json.trace.push(JsonStep::Field(column.field.clone()));
                return json.fail(Reason::Missing, json.at);
            }
            column.append_null();
        }
        Ok(())
    }

    /// Returns the index of the field with the next name. Writers keep an order, so it first tries the field that
    /// followed in the last object.
    #[inline]
    fn member(&mut self, previous: usize, json: &mut Json<'_>) -> Parsed<Option<usize>> {
        let guess = self.after[previous];
        if self.tokens.get(guess).is_some_and(|token| json.takes(token)) {
            return Ok(Some(guess));
        }
        let plain = json.key()?;
        let name = plain.unwrap_or(&json.unescaped);
        let found = if self.columns.len() <= MAX_LINEAR_SEARCH {
            self.fields.iter().position(|field| field.name().as_bytes() == name)
        } else {
            self.by_name.get(name).copied()
        };
        if let Some(index) = found {
            self.after[previous] = index;
        }
        Ok(found)
    }
}

/// Returns the path of a field.
fn inner(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn token(name: &str) -> Vec<u8> {
    let mut token = vec![b'"'];
    for byte in name.bytes() {
        match byte {
            b'"' | b'\\' => token.extend([b'\\', byte]),
            0..0x20 => token.extend(format!("\\u{byte:04x}").into_bytes()),
            _ => token.push(byte),
        }
    }
    token.push(b'"');
    token
}
