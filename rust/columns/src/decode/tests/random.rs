//! Tests with random documents and bytes, against serde_json and the standard library.

use arrow_array::Float64Array;
use arrow_array::types::*;
use arrow_schema::TimeUnit;
use serde_json::{Map, Value};

use super::random_document::RandomDocument;
use super::*;

fn random_schema() -> Fields {
    let leaves = vec![nullable("i", DataType::Int64), nullable("s", DataType::Utf8), nullable("f", DataType::Float64)];
    let mut all = leaves.clone();
    all.push(nullable("b", DataType::Boolean));
    all.push(nullable("l", DataType::List(Arc::new(nullable("item", DataType::Float64)))));
    all.push(nullable("o", DataType::Struct(fields(leaves))));
    all.push(nullable("m", map_of(DataType::Utf8)));
    fields(all)
}

/// Returns the value of serde_json in the Arrow type; `None` if the type does not fit.
fn expected(data_type: &DataType, value: Option<&Value>) -> Option<Value> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Some(Value::Null) };
    Some(match data_type {
        DataType::Int64 => match value.as_i64() {
            Some(int) => int.into(),
            // 1e3 is an integer, and so is -0.0.
            None => value
                .as_f64()
                .filter(|v| v.fract() == 0.0 && v.abs() < 9e18 && value.is_f64())
                .map(|v| v as i64)?
                .into(),
        },
        DataType::Float64 => value.as_f64()?.into(),
        DataType::Utf8 => value.as_str()?.into(),
        DataType::Boolean => value.as_bool()?.into(),
        DataType::List(item) => value
            .as_array()?
            .iter()
            .map(|value| expected(item.data_type(), Some(value)))
            .collect::<Option<Vec<_>>>()?
            .into(),
        DataType::Struct(fields) => {
            let object = value.as_object()?;
            let members =
                fields.iter().map(|f| Some((f.name().clone(), expected(f.data_type(), object.get(f.name()))?)));
            Value::Object(members.collect::<Option<Map<_, _>>>()?)
        }
        _ => {
            let strings = value.as_object()?.iter();
            Value::Object(
                strings
                    .map(|(k, v)| Some((k.clone(), expected(&DataType::Utf8, Some(v))?)))
                    .collect::<Option<Map<_, _>>>()?,
            )
        }
    })
}

fn actual(array: &dyn Array, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).into(),
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            (0..items.len()).map(|i| actual(&items, i)).collect::<Vec<_>>().into()
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            fields
                .iter()
                .zip(columns)
                .map(|(f, column)| (f.name().clone(), actual(column, row)))
                .collect::<Map<_, _>>()
                .into()
        }
        _ => {
            let entries = array.as_map().value(row);
            let keys = entries.column(0).as_string::<i32>();
            (0..entries.len())
                .map(|i| (keys.value(i).to_owned(), actual(entries.column(1), i)))
                .collect::<Map<_, _>>()
                .into()
        }
    }
}

/// Compares values, except for the last bit of a double, which serde_json does not guarantee.
fn same(got: &Value, want: &Value) -> bool {
    match (got, want) {
        (Value::Number(got), Value::Number(want)) if got.is_f64() && want.is_f64() => {
            let (got, want) = (got.as_f64().unwrap_or(f64::NAN), want.as_f64().unwrap_or(f64::NAN));
            (got - want).abs() <= 4.0 * f64::EPSILON * want.abs().max(f64::MIN_POSITIVE)
        }
        (Value::Array(got), Value::Array(want)) => {
            got.len() == want.len() && got.iter().zip(want).all(|(got, want)| same(got, want))
        }
        (Value::Object(got), Value::Object(want)) => {
            got.len() == want.len() && got.iter().all(|(name, got)| want.get(name).is_some_and(|want| same(got, want)))
        }
        _ => got == want,
    }
}

/// True if a name is repeated. An invalid earlier member makes the row malformed here, and serde_json's tree ignores
/// it.
fn repeats_a_name(text: &str) -> bool {
    let text = text.replace("\\u0069", "i");
    let names = ["i", "f", "s", "b", "l", "o", "m", "x"];
    names.iter().any(|name| text.matches(&format!("\"{name}\"")).count() > 1)
}

/// True if the text has a number that may be an integer and that a double cannot represent exactly.
fn beyond_doubles(text: &str) -> bool {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | 'e' | '-'));
    numbers.any(|number| number.contains(['.', 'e']) && number.len() > 16)
}

#[test]
fn random_documents_decode_as_in_serde_json() -> TestResult {
    let schema = random_schema();
    let root = DataType::Struct(schema.clone());
    let mut decoder = Decoder::new(&schema, OnMismatch::Permissive)?;
    let mut random = RandomDocument(0x9E37_79B9_7F4A_7C15);
    let (mut good, mut malformed, mut unclear) = (0, 0, 0);
    for _ in 0..300 {
        let texts: Vec<String> =
            (0..100).map(|_| if random.roll(30) == 0 { random.value(0) } else { random.object(0) }).collect();
        let batch = BinaryArray::from_iter_values(texts.iter().map(String::as_bytes));
        let decoded = decoder.decode(&batch).map_err(words)?;
        for (row, text) in texts.iter().enumerate() {
            let tree = serde_json::from_str::<Value>(text);
            // serde_json rejects a number beyond a double even in a member that is ignored.
            let beyond = tree.as_ref().is_err_and(|e| e.to_string().contains("number out of range"));
            let tree = tree.ok().filter(Value::is_object);
            let want = tree.and_then(|tree| expected(&root, Some(&tree))).unwrap_or_default();
            let got = actual(&decoded.value, row);
            match (got.is_null(), same(&got, &want)) {
                (true, true) => malformed += 1,
                (false, true) => good += 1,
                (refused, _) => {
                    assert!(
                        beyond || beyond_doubles(text) || refused && repeats_a_name(text),
                        "{text}\n got {got}\nwant {want}"
                    );
                    unclear += 1;
                }
            }
        }
    }
    assert!(good > 8_000 && malformed > 8_000 && unclear < 3_000, "{good} {malformed} {unclear}");
    Ok(())
}

/// A string that the model does not know: the JSON text of another value.
const ANY: &str = "any text";

/// Returns the value that the lenient rules keep, `None` if nothing is kept; and whether all of it fits.
fn kept(data_type: &DataType, value: Option<&Value>) -> (Option<Value>, bool) {
    let Some(value) = value.filter(|value| !value.is_null()) else { return (Some(Value::Null), true) };
    match (data_type, value) {
        (DataType::Utf8, Value::String(_)) => (Some(value.clone()), true),
        (DataType::Utf8, _) => (Some(ANY.into()), true),
        (DataType::Struct(fields), Value::Object(object)) => {
            let members: Vec<_> = fields.iter().map(|f| kept(f.data_type(), object.get(f.name()))).collect();
            let fits = members.iter().all(|(_, fits)| *fits);
            let named = fields.iter().zip(members).map(|(f, (value, _))| (f.name().clone(), value.unwrap_or_default()));
            (Some(Value::Object(named.collect())), fits)
        }
        (DataType::Map(..), Value::Object(object)) => {
            let values = object.iter().map(|(k, v)| (k.clone(), kept(&DataType::Utf8, Some(v)).0.unwrap_or_default()));
            (Some(Value::Object(values.collect())), true)
        }
        _ => {
            let found = expected(data_type, Some(value));
            let fits = found.is_some();
            (found, fits)
        }
    }
}

/// As [`same`], for strings that the model does not know too.
fn same_or_any(got: &Value, want: &Value) -> bool {
    match (got, want) {
        (Value::String(_), Value::String(want)) if want == ANY => true,
        (Value::Object(got), Value::Object(want)) => {
            got.len() == want.len() && got.iter().all(|(k, got)| want.get(k).is_some_and(|want| same_or_any(got, want)))
        }
        _ => same(got, want),
    }
}

#[test]
fn lenient_rules_keep_what_a_model_keeps() -> TestResult {
    let schema = random_schema();
    let root = DataType::Struct(schema.clone());
    let leniency = Leniency { like_spark: true, non_finite: false };
    let rules = JsonRules { leniency, ..Default::default() };
    let mut decoder = Decoder::with_rules(&schema, OnMismatch::Permissive, &rules)?;
    let mut random = RandomDocument(0x1234_5678);
    let (mut whole, mut partial, mut unclear) = (0, 0, 0);
    for _ in 0..200 {
        let texts: Vec<String> = (0..100).map(|_| random.object(0)).collect();
        let batch = BinaryArray::from_iter_values(texts.iter().map(String::as_bytes));
        let decoded = decoder.decode(&batch).map_err(words)?;
        let corrupt = decoded.corrupt.ok_or("no texts")?;
        for (row, text) in texts.iter().enumerate() {
            let tree = serde_json::from_str::<Value>(text).ok();
            let (want, fits) = tree.map_or((None, false), |tree| kept(&root, Some(&tree)));
            let got = actual(&decoded.value, row);
            if corrupt.is_valid(row) == fits || !same_or_any(&got, &want.clone().unwrap_or_default()) {
                let differs = beyond_doubles(text) || repeats_a_name(text) || want.is_none();
                assert!(differs, "{text}\n got {got}\nwant {want:?}");
                unclear += 1;
            } else if fits {
                whole += 1;
            } else {
                partial += 1;
            }
        }
    }
    assert!(whole > 2_000 && partial > 4_000 && unclear < 5_000, "{whole} {partial} {unclear}");
    Ok(())
}

#[test]
fn random_bytes_neither_panic_nor_hang() -> TestResult {
    let mut all = random_schema().iter().map(|field| field.as_ref().clone()).collect::<Vec<_>>();
    all.push(nullable("d", DataType::Decimal128(20, 5)));
    all.push(nullable("w", DataType::Decimal256(70, -5)));
    all.push(nullable("y", DataType::Binary));
    all.push(nullable("t", DataType::Timestamp(TimeUnit::Nanosecond, None)));
    let schema = fields(all);
    let alphabet = b"{}[]\":,\\ untrfalse0123456789.eE+-isfblomdwytx\xc3\xa9\x00\n=TZ/";
    let mut random = RandomDocument(42);
    let lenient = JsonRules { leniency: Leniency { like_spark: true, non_finite: true }, ..Default::default() };
    for (mode, rules) in [
        (OnMismatch::Permissive, JsonRules::default()),
        (OnMismatch::DropMalformed, JsonRules::default()),
        (OnMismatch::FailFast, JsonRules::default()),
        (OnMismatch::Permissive, lenient.clone()),
        (OnMismatch::DropMalformed, lenient.clone()),
    ] {
        let mut decoder = Decoder::with_rules(&schema, mode, &rules)?;
        for round in 0..3_000 {
            let rows: Vec<Vec<u8>> = (0..8)
                .map(|_| {
                    let mut text = match round % 3 {
                        0 => (0..random.roll(60)).map(|_| alphabet[random.roll(alphabet.len())]).collect(),
                        1 => (0..random.roll(60)).map(|_| random.roll(256) as u8).collect(),
                        _ => random.object(0).into_bytes(),
                    };
                    // A valid document with a few bytes changed, removed or repeated reaches more code than noise.
                    for _ in 0..random.roll(3) {
                        let place = random.roll(text.len() + 1);
                        match random.roll(3) {
                            0 if place < text.len() => text[place] = alphabet[random.roll(alphabet.len())],
                            1 => text.truncate(place),
                            _ => text.insert(place, alphabet[random.roll(alphabet.len())]),
                        }
                    }
                    text
                })
                .collect();
            let batch = BinaryArray::from_iter_values(&rows);
            match decoder.decode(&batch) {
                Ok(decoded) => {
                    let kept = decoded.keep.as_ref().map_or(rows.len(), BooleanArray::true_count);
                    assert_eq!(decoded.value.len(), kept);
                    if let Some(corrupt) = decoded.corrupt.filter(|_| !rules.leniency.like_spark) {
                        assert!((0..kept).all(|row| decoded.value.is_valid(row) != corrupt.is_valid(row)));
                    }
                }
                Err(DecodeError::Malformed(bad)) => assert!(mode == OnMismatch::FailFast && bad.row < rows.len()),
                Err(DecodeError::Internal(text)) => return Err(text.into()),
            }
        }
    }
    Ok(())
}

#[test]
fn random_doubles_are_rounded_to_the_nearest() -> TestResult {
    let mut random = RandomDocument(7);
    let texts: Vec<String> =
        (0..20_000).map(|_| random.number()).filter(|text| text.parse().is_ok_and(f64::is_finite)).collect();
    let array = column(DataType::Float64, &texts.iter().map(String::as_str).collect::<Vec<_>>())?;
    let expected: Vec<f64> = texts.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    assert_eq!(*array.as_primitive::<Float64Type>(), Float64Array::from(expected));
    let small: Vec<&String> = texts.iter().filter(|text| text.parse().is_ok_and(f32::is_finite)).collect();
    let array = column(DataType::Float32, &small.iter().map(|text| text.as_str()).collect::<Vec<_>>())?;
    for (row, text) in small.iter().enumerate() {
        assert_eq!(array.as_primitive::<Float32Type>().value(row).to_bits(), text.parse::<f32>()?.to_bits(), "{text}");
    }
    Ok(())
}
