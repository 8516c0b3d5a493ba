//! Fuzzes the parser of credentials: it accepts or rejects a text, and no error contains the secret.
#![no_main]

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use libfuzzer_sys::fuzz_target;

use client::auth::{Credentials, Source};

const CANARY: &str = "CANARYSEED";
const SEED: &str = "SUACH75SWCM5D2JMJM6EKLR2WDARVGZT4QC6LX3AGHSWOMVAKERABBBRWM";

fn ask(source: Source) -> Result<wire::nats::Auth, String> {
    let credentials = Credentials { source: Some(source), ..Credentials::default() };
    credentials.check().map_err(|error| format!("{error} {error:?}"))?;
    let mut answer = pin!(credentials.answer(b"nonce", (None, None)));
    // The future is ready at the first poll, because there is no callback.
    match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer.map_err(|error| format!("{error} {error:?}")),
        Poll::Pending => panic!("the future is pending"),
    }
}

fuzz_target!(|input: (&str, &str, &str)| {
    let (head, middle, tail) = input;
    for text in [
        head.to_owned(),
        format!("{head}{CANARY}{tail}"),
        format!("-----BEGIN NATS USER JWT-----\n{head}\n-----BEGIN USER NKEY SEED-----\n{CANARY}{tail}\n"),
        format!("{head}-----BEGIN NATS USER JWT-----{middle}e.y.j\n-----BEGIN USER NKEY SEED-----\n{SEED}\n{tail}"),
    ] {
        for source in [Source::Raw(text.clone()), Source::Seed(text.clone())] {
            match ask(source) {
                Ok(auth) => {
                    assert!(auth.signature.is_some_and(|signature| signature.len() == 64));
                    assert!(auth.jwt.is_some() || auth.nkey.is_some());
                }
                Err(error) => assert!(!error.contains(CANARY) && !error.contains(SEED), "{error}"),
            }
        }
    }
    let good =
        format!("-----BEGIN NATS USER JWT-----\ne.y.j\n------END\n-----BEGIN USER NKEY SEED-----\n{SEED}\n{tail}");
    let auth = ask(Source::Raw(good)).unwrap();
    assert_eq!(auth.jwt.as_deref(), Some("e.y.j"));
});
