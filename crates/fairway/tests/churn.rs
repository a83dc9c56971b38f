//! Short forms of the proofs under churn and change, with the real binary: endpoints that come and go lose no GET and double no
//! POST, changes take effect everywhere and close nothing, a killed backend is detected as a failure. `fairway-bench churn`,
//! `changes` and `kill` are the long forms.

use std::path::Path;
use std::time::Duration;

use fairway_testkit::proof::changes::visible;
use fairway_testkit::proof::churn::{Churn, ChurnFindings, Swing};
use fairway_testkit::proof::kill::{ClientView, cut_answers};
use fairway_testkit::proof::site::Scheme;
use fairway_testkit::proof::steadiness::steady;
use fairway_testkit::proof::traffic::{Load, Progress};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

async fn churn(scheme: Scheme, swing: Swing) -> ChurnFindings {
    let load = Load { requests: 5_000, connections: 20, posts: 0.3, fresh: 0.05 };
    let churn = Churn { binary: BINARY.into(), load, every: Duration::from_millis(100), swing };
    let churned = churn.run(scheme, &Progress::default()).await;
    let details = format!("{churned:#?}");
    let failed = churned.broken_promises();
    assert!(failed.is_empty(), "{failed:?} in {details}");
    let all = churned.tally.gets.answered + churned.tally.posts.answered + churned.tally.posts.lost();
    assert_eq!(all, 5_000, "{details}");
    assert!(
        churned.swings.up > 0 && churned.deliveries.posts > 1_000,
        "the test exercised nothing: {details}"
    );
    churned
}

#[tokio::test]
async fn endpoints_that_come_and_go_lose_no_get_and_double_no_post() {
    churn(Scheme::Plain, Swing::Oldest).await;
}

#[tokio::test]
async fn endpoints_that_come_and_go_lose_no_get_and_double_no_post_over_tls() {
    churn(Scheme::Tls, Swing::Oldest).await;
}

#[tokio::test]
async fn a_zone_whose_endpoints_are_replaced_loses_no_get_and_keeps_its_requests_while_it_has_any() {
    let churned = churn(Scheme::Plain, Swing::Zone).await;
    let (own, other) = churned.counted.zones;
    assert!(own > 500.0 && other > 500.0, "{churned:#?}");
}

#[tokio::test]
async fn every_connection_sees_every_change() {
    let delays = visible(Path::new(BINARY), 20).await;
    assert_eq!(delays.count, 20);
}

#[tokio::test]
async fn routes_certificates_and_settings_change_without_closing_a_connection() {
    let found = steady(Path::new(BINARY), 5).await;
    assert_eq!((found.closed, found.wrong), (0, 0), "{found:?}");
    assert!(found.answered > found.connections as u64, "the test exercised nothing: {found:?}");
}

#[tokio::test]
async fn a_backend_killed_within_its_response_never_looks_successful() {
    for cut in cut_answers(Path::new(BINARY), 3).await {
        assert_eq!(cut.seen.values().sum::<u64>(), 3, "{cut:?}");
        assert!(!cut.seen.contains_key(&ClientView::ShortSuccess), "{cut:?}");
    }
}
