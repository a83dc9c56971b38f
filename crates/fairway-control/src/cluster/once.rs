//! Reads the cluster once, for commands that do not watch. Owns no rules of its own: the [`Ledger`] says what to ask for.

use std::time::Duration;

use fairway_translate::{Change, Diagnostic};
use kube::Client;
use tokio::time::Instant;

use super::access::AccessError;
use super::collection::{Collection, Watched};
use super::fault::Fault;
use super::ledger::{Ledger, Order, problem};
use super::probe;
use super::selection::Selection;
use super::watch::{News, Told, WatchId};
use super::wire;

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
    let mut ledger = Ledger::new(selection.clone());
    loop {
        let orders = ledger.orders();
        if orders.is_empty() {
            break;
        }
        for order in orders {
            match order {
                Order::Watch(id, collection) => read(client, &mut ledger, id, &collection).await?,
                Order::Fetch(id, one, object) => {
                    let answer = wire::list(client, &one)
                        .await
                        .map(|page| page.items.into_iter().next().map(Box::new));
                    take(&mut ledger, id, News::Fetched(object, answer));
                }
                Order::Stop(_) => {}
            }
        }
        // Whatever is still held after this, no further answer will come for it.
        if let Some(batch) = ledger.batch(Instant::now()) {
            return Ok((batch.changes, batch.diagnostics));
        }
    }
    let batch = ledger.batch(Instant::now() + Duration::from_secs(60));
    Ok(batch.map(|batch| (batch.changes, batch.diagnostics)).unwrap_or_default())
}

async fn read(
    client: &Client,
    ledger: &mut Ledger,
    id: WatchId,
    collection: &Collection,
) -> Result<(), AccessError> {
    take(ledger, id, News::Began);
    match wire::list(client, collection).await {
        Ok(page) => {
            for item in page.items {
                take(ledger, id, News::Set(item));
            }
            take(ledger, id, News::Complete(page.version));
            Ok(())
        }
        Err(fault) if fault.is_definite() && !is_vital(collection) => {
            deny(ledger, id, &fault);
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
    matches!(collection.kind, Watched::Ingress | Watched::Namespace)
}

/// Nobody asks twice here, so that the first denial is the last word.
fn deny(ledger: &mut Ledger, id: WatchId, fault: &Fault) {
    let now = Instant::now();
    ledger.take(Told { id, at: now, news: News::Failed(fault.clone()) });
    ledger.take(Told { id, at: now + Duration::from_secs(1), news: News::Failed(fault.clone()) });
}

fn take(ledger: &mut Ledger, id: WatchId, news: News) {
    ledger.take(Told { id, at: Instant::now(), news });
}
