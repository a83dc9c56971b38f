//! Reads the cluster once, for commands that do not watch. Owns no rules of its own: the [`Tracker`] says what to ask for.

use std::time::Duration;

use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::object::Kind;
use fairway_objects::resources::Change;
use kube::Client;
use tokio::time::Instant;

use super::access::AccessError;
use super::collection::{Collection, Watched};
use super::fault::Fault;
use super::selection::{Selection, ServeGateways};
use super::stage::problem;
use super::tracker::{Action, Tracker};
use super::watch::{WatchEvent, WatchId, WatchReport};
use super::{discovery, probe, wire};

/// Everything that is selected, and what could not be read of it.
///
/// # Errors
/// The cluster does not answer, is too old, or shows no Ingress at all.
pub async fn read_once(
    client: &Client,
    selection: &Selection,
) -> Result<(Vec<Change>, Vec<Diagnostic>), AccessError> {
    let server = || "the cluster".to_owned();
    let version = probe::version(client).await;
    let version =
        version.map_err(|fault| AccessError::Refused { resource: server(), problem: fault.to_string() })?;
    if let Some(problem) = version.refusal() {
        return Err(AccessError::Refused { resource: server(), problem });
    }
    let mut tracker = Tracker::new(selection.clone());
    if selection.gateways == ServeGateways::Yes {
        // Whoever may not ask sees no CRD.
        let offered = match discovery::offered(client).await {
            Err(fault) if !fault.is_definite() => {
                let resource = "the list of APIs".to_owned();
                return Err(AccessError::Refused { resource, problem: fault.to_string() });
            }
            offered => offered.unwrap_or_default(),
        };
        take(&mut tracker, WatchId(0), WatchEvent::Offered(offered));
    }
    loop {
        let actions = tracker.actions();
        if actions.is_empty() {
            break;
        }
        for order in actions {
            match order {
                Action::Watch(id, collection) => read(client, &mut tracker, id, &collection).await?,
                Action::Fetch(id, one, object) => {
                    let answer = wire::list(client, &one)
                        .await
                        .map(|page| page.items.into_iter().next().map(Box::new));
                    take(&mut tracker, id, WatchEvent::Fetched(object, answer));
                }
                Action::Stop(_) => {}
            }
        }
        // Whatever is still held after this, no further answer will come for it.
        if let Some(batch) = tracker.batch(Instant::now()) {
            return Ok((batch.changes, batch.diagnostics));
        }
    }
    let batch = tracker.batch(Instant::now() + Duration::from_secs(60));
    Ok(batch.map(|batch| (batch.changes, batch.diagnostics)).unwrap_or_default())
}

async fn read(
    client: &Client,
    tracker: &mut Tracker,
    id: WatchId,
    collection: &Collection,
) -> Result<(), AccessError> {
    take(tracker, id, WatchEvent::Began);
    match wire::list(client, collection).await {
        Ok(page) => {
            for item in page.items {
                take(tracker, id, WatchEvent::Set(item));
            }
            take(tracker, id, WatchEvent::Complete(page.version));
            Ok(())
        }
        Err(fault) if fault.is_definite() && !is_vital(collection) => {
            deny(tracker, id, &fault);
            Ok(())
        }
        Err(fault) => Err(AccessError::Refused {
            resource: collection.to_string(),
            problem: problem(collection, &fault),
        }),
    }
}

/// Without these there is nothing to say.
fn is_vital(collection: &Collection) -> bool {
    matches!(collection.kind, Watched::Objects(Kind::Ingress) | Watched::Selection)
}

/// Nobody asks twice here, so that the first denial is the last word.
fn deny(tracker: &mut Tracker, id: WatchId, fault: &Fault) {
    let now = Instant::now();
    tracker.take(WatchReport { id, at: now, event: WatchEvent::Failed(fault.clone()) });
    tracker.take(WatchReport {
        id,
        at: now + Duration::from_secs(1),
        event: WatchEvent::Failed(fault.clone()),
    });
}

fn take(tracker: &mut Tracker, id: WatchId, event: WatchEvent) {
    tracker.take(WatchReport { id, at: Instant::now(), event });
}
