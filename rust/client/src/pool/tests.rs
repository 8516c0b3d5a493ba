//! Order of attempts, and parsing of addresses.

use super::*;

fn rules(max_failures: Option<u32>) -> Rules {
    let wait = Duration::from_secs(2);
    let (jitter, jitter_tls) = (Duration::from_millis(100), Duration::from_secs(1));
    Rules {
        randomize: false,
        max_failures,
        wait,
        wait_max: wait,
        jitter,
        jitter_tls,
        always_tls: false,
        ignore_discovered: false,
    }
}

fn list(addresses: &[&str]) -> Vec<String> {
    addresses.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn user_info_is_decoded_and_removed_from_the_address() {
    for (text, plain) in
        [("p%40ss%3a", "p@ss:"), ("100%", "100%"), ("%zz%4", "%zz%4"), ("gr%C3%BCn", "grün"), ("%ff", "%ff")]
    {
        assert_eq!(decode(text), plain);
    }
    let server = parse("nats://me:s3cret@host:4222").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((server.user.as_deref(), server.password.as_deref()), (Some("me"), Some("s3cret")));
    assert_eq!(server.addr.as_url_str(), "nats://host:4222");
    assert_eq!(url(&server.addr), "nats://host:4222");
}

#[test]
fn displayed_servers_have_no_password() {
    let servers = list(&["nats://me:s3cret@host:4222", "tls://other:1", "127.0.0.1:4222"]);
    assert_eq!(display_servers(&servers), "host:4222, tls://other:1, 127.0.0.1:4222");
    assert_eq!(display_servers(&list(&["me:s3cret://more@host", "me:s3cret@://host"])), "host, ://host");
}

#[test]
fn invalid_addresses_are_rejected() {
    for text in [
        "http://x",
        "nats://host:notaport",
        "nats://[::",
        "",
        "nats://",
        "nats://a b",
        "nats://:4222",
        "nats://h\r\n:1",
    ] {
        assert!(parse(text).is_err(), "{text:?}");
    }
    for (text, shown) in [
        ("host", "nats://host:4222"),
        ("tls://h:1", "tls://h:1"),
        ("[::1]", "nats://[::1]:4222"),
        ("ws://h:80/path", "ws://h:80/path"),
    ] {
        assert_eq!(parse(text).map(|server| url(&server.addr)).ok().as_deref(), Some(shown));
    }
    assert!(Pool::new(&list(&["ws://a", "nats://b"]), rules(None)).is_err());
}

#[test]
fn servers_alternate_and_are_removed_after_failures() {
    let mut pool = Pool::new(&list(&["a", "b"]), rules(Some(1))).unwrap_or_else(|e| panic!("{e}"));
    let hosts: Vec<_> = std::iter::from_fn(|| pool.first()).map(|addr| addr.host().to_owned()).collect();
    assert_eq!(hosts, ["a", "b"]);
    let mut tried = Vec::new();
    while let Some((addr, wait)) = pool.next_in_turn() {
        assert_eq!(wait.is_zero(), tried.len() < 2, "the first attempt at each is at once");
        pool.failed(&addr);
        tried.push(addr.host().to_owned());
    }
    assert_eq!(tried, ["a", "b", "a", "b"]);
}

#[test]
fn attempts_at_one_server_keep_the_wait() {
    let mut pool = Pool::new(&list(&["a"]), rules(None)).unwrap_or_else(|e| panic!("{e}"));
    for failures in 0..5 {
        let (addr, wait) = pool.next_in_turn().unwrap_or_else(|| panic!("given up after {failures}"));
        let expected = if failures == 0 { 0.0..0.001 } else { 1.9..2.21 };
        assert!(expected.contains(&wait.as_secs_f64()), "{failures}: {wait:?}");
        pool.failed(&addr);
    }
    assert!(Rules { wait: Duration::ZERO, ..rules(None) }.pause(false, 1) > Duration::ZERO);
}

#[test]
fn waits_have_the_jitter_of_their_connection() {
    let spread = |rules: Rules, tls| {
        let waits = (0..1_000).map(|_| rules.pause(tls, 1) - rules.wait);
        waits.fold((Duration::MAX, Duration::ZERO), |(least, most), wait| (least.min(wait), most.max(wait)))
    };
    for (tls, jitter) in [(false, 0.1), (true, 1.0)] {
        let (least, most) = spread(rules(None), tls);
        assert!(least.as_secs_f64() < jitter * 0.05 && (jitter * 0.95..jitter).contains(&most.as_secs_f64()));
    }
}

#[test]
fn discovered_servers_are_ignored_on_request() {
    let mut pool =
        Pool::new(&list(&["a"]), Rules { ignore_discovered: true, ..rules(None) }).unwrap_or_else(|e| panic!("{e}"));
    let from = pool.servers().next().map(|server| server.addr.clone()).unwrap_or_else(|| panic!("no server"));
    assert!(!pool.discover(&from, &["b:4222".to_owned()], false));
    assert_eq!(pool.count(), 1);
}

#[test]
fn discovered_servers_keep_the_scheme_without_duplicates() {
    let mut pool = Pool::new(&list(&["tls://a:1"]), rules(None)).unwrap_or_else(|e| panic!("{e}"));
    let from = pool.servers[0].addr.clone();
    assert!(pool.discover(&from, &list(&["a:1", "10.0.0.1:4222", "10.0.0.1:4222"]), true));
    assert!(!pool.discover(&from, &list(&["10.0.0.1:4222"]), true));
    let all: Vec<_> = pool.servers().map(|s| (url(&s.addr), s.discovered, s.tls_name.clone())).collect();
    assert_eq!(
        all,
        [("tls://a:1".to_owned(), false, None), ("tls://10.0.0.1:4222".to_owned(), true, Some("a".to_owned())),]
    );
}

#[test]
fn the_wait_doubles_up_to_its_limit() {
    let rules =
        Rules { wait: Duration::from_secs(2), wait_max: Duration::from_secs(7), jitter: Duration::ZERO, ..rules(None) };
    let waits: Vec<_> = [0, 1, 2, 3, 90].iter().map(|failures| rules.pause(false, *failures).as_secs()).collect();
    assert_eq!(waits, [2, 2, 4, 7, 7]);
    // A limit below the wait does not shorten it.
    assert_eq!(Rules { wait_max: Duration::ZERO, ..rules }.pause(false, 5).as_secs(), 2);
}
