//! Short form of the proof of many routes, with the real binary: the setup that `fairway-bench routes` measures works from a
//! directory and from an API server, with Ingresses and with HTTPRoutes.

use std::path::Path;

use fairway_testkit::proof::routes::{Kind, Shape, Source, measure};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");
const SHAPE: Shape = Shape { routes: 60, hosts: 12, endpoints: 30 };
const CHANGES: usize = 4;

async fn proves(kind: Kind, source: Source) {
    let found = measure(Path::new(BINARY), kind, source, SHAPE, CHANGES).await;
    assert_eq!((found.kind, found.source, found.shape), (kind, source, SHAPE));
    assert_eq!(found.adoption.count, CHANGES, "Fairway adopts each change");
    let reached = (kind, source) != (Kind::HttpRoute, Source::Api);
    assert_eq!(
        found.visible.map(|received| received.count),
        reached.then_some(CHANGES),
        "requests see each change"
    );
    assert!(found.resident_mib > 1.0 && found.resident_after_mib > 1.0, "{found:?}");
}

#[tokio::test]
async fn changes_of_ingresses_in_a_directory_are_served() {
    proves(Kind::Ingress, Source::Directory).await;
}

#[tokio::test]
async fn changes_of_ingresses_of_an_api_server_are_served() {
    proves(Kind::Ingress, Source::Api).await;
}

#[tokio::test]
async fn changes_of_routes_in_a_directory_are_served() {
    proves(Kind::HttpRoute, Source::Directory).await;
}

#[tokio::test]
async fn changes_of_routes_of_an_api_server_are_adopted() {
    proves(Kind::HttpRoute, Source::Api).await;
}
