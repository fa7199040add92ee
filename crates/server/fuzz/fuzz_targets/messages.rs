//! Any bytes as messages of a client: read or refused, never a panic. The first byte is the kind.
//!
//! `cargo +nightly fuzz run messages` in `crates/server`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use liger_server::auth::scram::{Binding, Exchange, Verifier};
use liger_server::wire::frontend::{FirstPacket, Frontend};

fuzz_target!(|bytes: &[u8]| {
    let _ = FirstPacket::read(bytes);
    let Some((&kind, body)) = bytes.split_first() else { return };
    match Frontend::read(kind, body) {
        Ok(Frontend::Bind { parameters, result_formats, .. }) => {
            assert_eq!(parameters.iter().count(), parameters.count);
            let _ = result_formats.of(usize::from(kind));
        }
        Ok(Frontend::Password(body)) => {
            let verifier = Verifier::mock("nobody", b"secret");
            let exchange = Exchange::begin(verifier, Binding::Without { offered: false }, body);
            if let Ok(exchange) = exchange {
                assert_eq!(exchange.finish(body), exchange.finish(body));
            }
        }
        _ => {}
    }
});
