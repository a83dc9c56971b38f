//! Reads the cluster once, for commands that do not watch. The [`Tracker`] decides what to read.

use std::time::Duration;

use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::object::Kind;
use fairway_objects::resources::Change;
use kube::Client;
use tokio::time::Instant;

use super::access::AccessError;
use super::collection::{Collection, WatchedKind};
use super::fault::Fault;
use super::selection::{Selection, ServeGateways};
use super::stage::problem;
use super::tracker::{Action, Tracker};
use super::watch::{WatchEvent, WatchId, WatchReport};
use super::{discovery, probe, wire};

/// All selected objects, and what could not be read.
///
/// # Errors
/// The cluster does not answer, is too old, or lists no Ingresses.
pub async fn read_once(
    client: &Client,
    selection: &Selection,
) -> Result<(Vec<Change>, Vec<Diagnostic>), AccessError> {
    let server = || "the cluster".to_owned();
    let version = probe::fetch_version(client).await;
    let version =
        version.map_err(|fault| AccessError::Refused { resource: server(), problem: fault.to_string() })?;
    if let Some(problem) = version.unsupported_reason() {
        return Err(AccessError::Refused { resource: server(), problem });
    }
    let mut tracker = Tracker::new(selection.clone());
    if selection.gateways == ServeGateways::Yes {
        // Without permission for discovery no CRD is visible.
        let offered = match discovery::discover(client).await {
            Err(fault) if !fault.is_permanent() => {
                let resource = "the list of APIs".to_owned();
                return Err(AccessError::Refused { resource, problem: fault.to_string() });
            }
            offered => offered.unwrap_or_default(),
        };
        feed_tracker(&mut tracker, WatchId(0), WatchEvent::Offered(offered));
    }
    loop {
        let actions = tracker.take_actions();
        if actions.is_empty() {
            break;
        }
        for order in actions {
            match order {
                Action::Watch(id, collection) => {
                    read_collection(client, &mut tracker, id, &collection).await?;
                }
                Action::Fetch(id, one, object) => {
                    let reply = wire::fetch_list(client, &one)
                        .await
                        .map(|page| page.items.into_iter().next().map(Box::new));
                    feed_tracker(&mut tracker, id, WatchEvent::Fetched(object, reply));
                }
                Action::Stop(_) => {}
            }
        }
        // No further response can release what is still held now.
        if let Some(batch) = tracker.take_batch(Instant::now()) {
            return Ok((batch.changes, batch.diagnostics));
        }
    }
    let batch = tracker.take_batch(Instant::now() + Duration::from_secs(60));
    Ok(batch.map(|batch| (batch.changes, batch.diagnostics)).unwrap_or_default())
}

async fn read_collection(
    client: &Client,
    tracker: &mut Tracker,
    id: WatchId,
    collection: &Collection,
) -> Result<(), AccessError> {
    feed_tracker(tracker, id, WatchEvent::ListStarted);
    match wire::fetch_list(client, collection).await {
        Ok(page) => {
            for item in page.items {
                feed_tracker(tracker, id, WatchEvent::Set(item));
            }
            feed_tracker(tracker, id, WatchEvent::ListCompleted(page.version));
            Ok(())
        }
        Err(fault) if fault.is_permanent() && !is_required(collection) => {
            report_denied(tracker, id, &fault);
            Ok(())
        }
        Err(fault) => Err(AccessError::Refused {
            resource: collection.to_string(),
            problem: problem(collection, &fault),
        }),
    }
}

/// Without these collections there is nothing to report.
fn is_required(collection: &Collection) -> bool {
    matches!(collection.kind, WatchedKind::Objects(Kind::Ingress) | WatchedKind::NamespaceNames)
}

/// There is no retry here, so the first denial is final.
fn report_denied(tracker: &mut Tracker, id: WatchId, fault: &Fault) {
    let now = Instant::now();
    tracker.handle_report(WatchReport { id, at: now, event: WatchEvent::Failed(fault.clone()) });
    tracker.handle_report(WatchReport {
        id,
        at: now + Duration::from_secs(1),
        event: WatchEvent::Failed(fault.clone()),
    });
}

fn feed_tracker(tracker: &mut Tracker, id: WatchId, event: WatchEvent) {
    tracker.handle_report(WatchReport { id, at: Instant::now(), event });
}
