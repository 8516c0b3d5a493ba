//! Fuzzes server lists of users and of servers: they are accepted or rejected, and no shown text contains a password.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;

use client::pool::{Pool, Rules, display_servers, place, url};

const CANARY: &str = "CANARYPASSWORD";
const RULES: Rules = Rules {
    randomize: true,
    max_failures: Some(3),
    wait: Duration::from_millis(10),
    wait_max: Duration::from_millis(10),
    jitter: Duration::from_millis(1),
    jitter_tls: Duration::from_millis(1),
    always_tls: false,
    ignore_discovered: false,
};

fn check(addresses: &[String]) -> Option<Pool> {
    let shown = display_servers(addresses);
    assert!(!shown.contains(CANARY), "{shown}");
    match Pool::new(addresses, RULES) {
        Ok(pool) => {
            for addr in pool.servers().map(|server| &server.addr) {
                for shown in [place(addr), url(addr), format!("{addr:?}")] {
                    assert!(!shown.contains(CANARY), "{shown}");
                }
                assert!(!addr.host().is_empty() && addr.username().is_none() && addr.password().is_none());
            }
            Some(pool)
        }
        Err(error) => {
            let text = format!("{error} {error:?}");
            assert!(!text.contains(CANARY), "{text}");
            None
        }
    }
}

fuzz_target!(|input: (Vec<String>, &str, &str, Vec<String>, bool)| {
    let (addresses, user, host, announced, tls) = input;
    if addresses.iter().any(|text| text.contains(CANARY)) || host.contains(CANARY) || user.contains(CANARY) {
        return;
    }
    check(&addresses);
    // The user info ends at the last @.
    for scheme in ["nats://", "tls://", "ws://", ""] {
        check(&[format!("{scheme}{user}:{CANARY}@{host}")]);
        check(&[format!("{scheme}{CANARY}@{host}"), host.to_owned()]);
    }
    if let Some(mut pool) = check(&["nats://127.0.0.1:4222".to_owned()]) {
        let from = pool.servers().next().unwrap().addr.clone();
        pool.discover(&from, &announced, tls);
        // A connection cannot change to WebSocket.
        let fits = check(&addresses).is_some_and(|fresh| !fresh.is_websocket());
        assert_eq!(pool.replace(&addresses).is_ok(), fits);
        while let Some((addr, _)) = pool.next_in_turn() {
            pool.failed(&addr);
            if pool.servers().all(|server| server.failures > 3) {
                break;
            }
        }
    }
});
