//! What we read out of the debug text of async-nats' `ServerInfo` is what stands in it, whatever the names in it are.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The module is private, and needs nothing of the engine.
#[allow(dead_code)]
#[path = "../../rust/src/engine/connection/info.rs"]
mod info;

use info::Info;

fuzz_target!(|input: (Vec<String>, String, Option<String>, bool, bool, usize, String)| {
    let (connect_urls, name, cluster, tls_required, lame_duck_mode, max_payload, noise) = input;
    let mut given = async_nats::ServerInfo::default();
    given.connect_urls = connect_urls.clone();
    given.server_name = name;
    given.cluster = cluster;
    given.tls_required = tls_required;
    given.lame_duck_mode = lame_duck_mode;
    given.max_payload = max_payload;
    let max_payload = Some(max_payload as u64);
    let expected = Info { connect_urls, tls_required, lame_duck: lame_duck_mode, max_payload };
    assert_eq!(Info::read(&format!("{given:?}")), expected);
    let _any = Info::read(&noise);
});
