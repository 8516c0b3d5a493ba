//! What our checks let through is exactly one frame on the wire, with the subject, headers, id and payload that were
//! given; the other end of a real connection reads it.
#![no_main]

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arbitrary::Arbitrary;
use async_nats::{Client, HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use jetarrow::engine::publish::rows::{Body, Headers, Rows, Subjects};
use jetarrow::engine::publish::size::header_size;
use jetarrow::engine::subject::{check, check_header};
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Mutex, mpsc};

const MAX_PAYLOAD: usize = 4_096;

#[derive(Debug)]
struct Frame {
    subject: String,
    headers: Vec<(String, String)>,
    payload: Vec<u8>,
}

struct Wire {
    runtime: Runtime,
    client: Client,
    frames: Mutex<mpsc::UnboundedReceiver<Frame>>,
}

/// Reads the protocol as a server does: by lines and by lengths. Anything but PUB, HPUB, PING and CONNECT is a finding.
async fn serve(stream: TcpStream, frames: mpsc::UnboundedSender<Frame>) {
    let mut stream = BufReader::new(stream);
    let info = format!("INFO {{\"server_id\":\"F\",\"headers\":true,\"max_payload\":{MAX_PAYLOAD}}}\r\n");
    stream.write_all(info.as_bytes()).await.unwrap();
    loop {
        let mut line = Vec::new();
        if stream.read_until(b'\n', &mut line).await.unwrap_or(0) == 0 {
            return;
        }
        let line = String::from_utf8(line).expect("a protocol line is UTF-8");
        let line = line.strip_suffix("\r\n").expect("a protocol line ends so");
        let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        let (subject, head, total) = match words[..] {
            ["CONNECT", ..] | ["PONG"] => continue,
            ["PING"] => {
                stream.write_all(b"PONG\r\n").await.unwrap();
                continue;
            }
            ["PUB", subject, total] => (subject, 0, total.parse().unwrap()),
            ["HPUB", subject, head, total] => (subject, head.parse().unwrap(), total.parse::<usize>().unwrap()),
            _ => panic!("not one frame: {line:?}"),
        };
        let mut body = vec![0; total + 2];
        stream.read_exact(&mut body).await.unwrap();
        assert!(body.ends_with(b"\r\n"), "it does not end where it says");
        let mut headers = Vec::new();
        if head > 0 {
            let text = std::str::from_utf8(&body[..head]).unwrap();
            let text = text.strip_prefix("NATS/1.0\r\n").and_then(|text| text.strip_suffix("\r\n")).unwrap();
            for line in text.split_terminator("\r\n") {
                let (name, value) = line.split_once(':').expect("a header has a colon");
                headers.push((name.to_owned(), value.trim_start_matches(' ').to_owned()));
            }
        }
        let payload = body[head..total].to_vec();
        let _ended = frames.send(Frame { subject: subject.to_owned(), headers, payload });
    }
}

fn wire() -> &'static Wire {
    static WIRE: OnceLock<Wire> = OnceLock::new();
    WIRE.get_or_init(|| {
        // A panic in a task must end the run.
        std::panic::set_hook(Box::new(|info| {
            eprintln!("{info}");
            std::process::abort();
        }));
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (sender, frames) = mpsc::unbounded_channel();
        let client = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, sender.clone()));
                }
            });
            let options = async_nats::ConnectOptions::new().ping_interval(Duration::from_secs(3_600));
            options.connect(format!("127.0.0.1:{port}")).await.unwrap()
        });
        Wire { runtime, client, frames: Mutex::new(frames) }
    })
}

#[derive(Arbitrary, Debug)]
struct Given {
    subject: String,
    headers: Vec<(String, String)>,
    id: Option<String>,
    payload: Vec<u8>,
}

fuzz_target!(|given: Given| {
    let mut headers = HeaderMap::new();
    let mut expected = Vec::new();
    for (name, value) in &given.headers {
        // What comes from Python goes through this check before it becomes a header.
        if check_header(name, value).is_ok() && name != "Nats-Msg-Id" {
            let (name, value): (HeaderName, HeaderValue) = (name.parse().unwrap(), value.parse().unwrap());
            expected.push((name.to_string(), value.as_str().to_owned()));
            headers.append(name, value);
        }
    }
    if let Some(id) = given.id.as_ref() {
        expected.push(("Nats-Msg-Id".to_owned(), id.clone()));
    }
    let rows = Rows {
        len: 1,
        subjects: Subjects::One(given.subject.as_str().into()),
        payloads: Box::new(vec![given.payload.clone()]),
        msg_ids: given.id.map(|id| Box::new(vec![id]) as _),
        headers: if headers.is_empty() { Headers::None } else { Headers::One(headers) },
        fixed: Arc::new([]),
        expected_stream: None,
        reasons: None,
        checked: false,
    };
    let Ok(rows) = rows.checked(MAX_PAYLOAD) else { return };
    assert!(check(&given.subject).is_ok());
    let body = Body::Row(Arc::new(rows), 0);
    let wire = wire();
    let frame = wire.runtime.block_on(async {
        let (subject, payload) = (body.subject(), Bytes::copy_from_slice(body.payload().unwrap()));
        match body.wire_headers() {
            Some(headers) => {
                assert!(header_size(&headers) + payload.len() <= MAX_PAYLOAD);
                wire.client.publish_with_headers(subject, headers, payload).await.unwrap();
            }
            None => wire.client.publish(subject, payload).await.unwrap(),
        }
        wire.client.flush().await.unwrap();
        let mut frames = wire.frames.lock().await;
        let frame = tokio::time::timeout(Duration::from_secs(5), frames.recv()).await.expect("one frame").unwrap();
        assert!(frames.try_recv().is_err(), "more than one frame");
        frame
    });
    assert_eq!((frame.subject, frame.payload), (given.subject, given.payload));
    let mut got = frame.headers;
    // The names of a map have no order, the values of a name have; white space before a value is not part of it.
    let trimmed = |(name, value): (String, String)| (name, value.trim_start_matches(' ').to_owned());
    let mut expected: Vec<_> = expected.into_iter().map(trimmed).collect();
    got.sort_by(|a, b| a.0.cmp(&b.0));
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(got, expected);
});
