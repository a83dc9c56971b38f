//! What the tests of `capacity` stand on. Never compiled for anything else.

use std::path::PathBuf;

use fairway_lab_measure::results::Settings;
use fairway_lab_traffic::backend::Spoken;

use crate::adapter::TlsChoice;
use crate::peers::local::LocalSite;
use crate::scenario::site::HOST;

/// A place in front of gRPC where nothing listens.
pub(super) fn site() -> LocalSite {
    let any = |port| ([127, 0, 0, 1], port).into();
    LocalSite {
        backends: vec![any(1)],
        upstream: Spoken::Grpc,
        http: any(2),
        https: any(3),
        admin: any(4),
        hosts: vec![HOST.to_owned()],
        chain_pem: String::new(),
        key_pem: String::new(),
        workers: 1,
        settings: Settings::Recommended,
        tls: TlsChoice::Tls13,
        folder: PathBuf::new(),
    }
}
