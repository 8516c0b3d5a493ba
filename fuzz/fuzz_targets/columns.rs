//! Fuzzes the batch builder: small batches of messages with headers contain all messages unchanged.
#![no_main]

use arbitrary::Arbitrary;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType, TimestampNanosecondType};
use arrow_array::{Array, RecordBatch, StructArray};
use libfuzzer_sys::fuzz_target;

use jetstream::receive::batch_builder::BatchBuilder;
use jetstream::receive::column::{Column, Layout};
use wire::headers::{Headers, block};
use wire::message::Message;
use wire::subject::check_header;

#[derive(Arbitrary, Debug)]
struct Given {
    subject: String,
    payload: Vec<u8>,
    headers: Option<Vec<(String, String)>>,
    numbers: [u32; 4],
}

const COLUMNS: [Column; 10] = [
    Column::Stream,
    Column::Seq,
    Column::Subject,
    Column::Timestamp,
    Column::Headers,
    Column::Data,
    Column::Delivered,
    Column::ConsumerSeq,
    Column::Pending,
    Column::Reply,
];

fn message(given: &Given) -> Message {
    let [seq, delivered, nanos, pending] = given.numbers;
    let mut headers = Headers::new();
    for (name, value) in given.headers.iter().flatten() {
        if check_header(name, value.trim()).is_ok() {
            headers.entry(name.clone()).or_default().push(value.trim().to_owned());
        }
    }
    let reply = format!("$JS.ACK.S.c.{delivered}.{seq}.9.{nanos}.{pending}");
    let headers = given.headers.as_ref().map(|_| block(&headers)).unwrap_or_default();
    Message::new(&given.subject, &reply, &headers, &given.payload)
}

/// Returns the headers of a row, sorted; `None` for null.
fn headers_of(batch: &RecordBatch, row: usize) -> Option<Vec<(String, Vec<String>)>> {
    let map = batch.column_by_name("headers")?.as_map();
    map.is_valid(row).then(|| {
        let entries: StructArray = map.value(row);
        let (keys, lists) = (entries.column(0).as_string::<i32>(), entries.column(1).as_list::<i32>());
        let values = |at: usize| lists.value(at).as_string::<i32>().iter().flatten().map(str::to_owned).collect();
        let mut all: Vec<_> = (0..entries.len()).map(|at| (keys.value(at).to_owned(), values(at))).collect();
        all.sort();
        all
    })
}

fn check(batch: &RecordBatch, messages: &[Message], micros: bool) {
    assert_eq!(batch.num_rows(), messages.len());
    let column = |name| batch.column_by_name(name);
    for (row, message) in messages.iter().enumerate() {
        let meta = message.meta().unwrap();
        for (name, want) in [("subject", &*message.subject()), ("stream", "S")] {
            assert!(column(name).is_none_or(|array| array.as_string::<i32>().value(row) == want));
        }
        assert!(column("data").is_none_or(|array| array.as_binary::<i32>().value(row) == message.payload()));
        assert!(column("reply").is_none_or(|array| array.as_string::<i32>().value(row) == message.reply().unwrap()));
        for (name, want) in [
            ("seq", meta.seq),
            ("delivered", meta.delivered),
            ("consumer_seq", meta.consumer_seq),
            ("pending", meta.pending),
        ] {
            assert!(column(name).is_none_or(|array| array.as_primitive::<Int64Type>().value(row) == want));
        }
        if let Some(times) = column("timestamp") {
            let (got, want) = if micros {
                (times.as_primitive::<TimestampMicrosecondType>().value(row), meta.nanos / 1_000)
            } else {
                (times.as_primitive::<TimestampNanosecondType>().value(row), meta.nanos)
            };
            assert_eq!(got, want);
        }
        if column("headers").is_some() {
            let want = message.headers().map(|headers| headers.into_iter().collect::<Vec<_>>());
            // A column does not distinguish absent headers from an empty header block.
            assert_eq!(headers_of(batch, row).unwrap_or_default(), want.unwrap_or_default());
        }
    }
}

fuzz_target!(|input: (Vec<Given>, u16, u8, bool, bool)| {
    let (given, which, limit, micros, replies) = input;
    let columns: Vec<Column> =
        COLUMNS.iter().enumerate().filter(|(at, _)| which >> at & 1 == 1).map(|(_, column)| *column).collect();
    if columns.is_empty() {
        return;
    }
    let messages: Vec<Message> = given.iter().map(message).collect();
    let mut builder = BatchBuilder::new(Layout::new(columns, micros), replies);
    let mut first = 0;
    for (at, message) in messages.iter().enumerate() {
        builder.push(message, &message.meta().unwrap()).unwrap();
        if builder.bytes() > usize::from(limit) || at + 1 == messages.len() {
            let batch = builder.finish().unwrap();
            check(&batch.record, &messages[first..=at], micros);
            assert!(builder.is_empty() && builder.bytes() == 0);
            first = at + 1;
        }
    }
});
