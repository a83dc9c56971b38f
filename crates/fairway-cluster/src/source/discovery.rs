//! Which kinds of the Gateway API the cluster serves, and in which versions. Polled, because CRDs are installed and removed while
//! Fairway runs. Also decides when a missing kind counts as removed; watches nothing.
//!
//! Discovery needs no permission of its own (`system:discovery`), unlike a watch of CustomResourceDefinitions.

use std::time::Duration;

use fairway_objects::kinds::{GATEWAY_KINDS, GROUP, INFERENCE_GROUP, POLICY_GROUP};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIResourceList};
use kube::Client;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::{self, Instant};

use super::backoff::Backoff;
use super::collection::OfferedKinds;
use super::fault::Fault;
use super::probe::RestartSignal;
use super::watch::{WatchEvent, WatchId, WatchReport};

/// The polling interval.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(5);
/// A kind that is missing for this long counts as removed: it may be missing briefly while CRDs are replaced or an API server
/// starts.
const REMOVAL_DELAY: Duration = Duration::from_secs(20);
/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs discovery once.
pub(super) async fn discover(client: &Client) -> Result<OfferedKinds, Fault> {
    let mut offered = OfferedKinds::new();
    for group in [GROUP, POLICY_GROUP, INFERENCE_GROUP] {
        discover_group(client, group, &mut offered).await?;
    }
    Ok(offered)
}

async fn discover_group(client: &Client, group: &str, offered: &mut OfferedKinds) -> Result<(), Fault> {
    let found = get_json::<APIGroup>(client, &format!("/apis/{group}")).await?;
    let versions: Vec<_> = found.map(|group| group.versions).unwrap_or_default();
    for version in versions.iter().filter_map(|it| known_version(&it.version)) {
        // A version that disappeared since the group was read offers nothing.
        let Some(list) = get_json::<APIResourceList>(client, &format!("/apis/{group}/{version}")).await?
        else {
            continue;
        };
        for resource in list.resources {
            let readable = GATEWAY_KINDS.iter().find(|known| {
                known.group == group && known.resource == resource.name && known.versions.contains(&version)
            });
            if let Some(known) = readable {
                offered.entry(known.kind).or_default().insert(version);
            }
        }
    }
    Ok(())
}

/// The known spelling of a version.
fn known_version(version: &str) -> Option<&'static str> {
    GATEWAY_KINDS.iter().flat_map(|known| known.versions).copied().find(|known| *known == version)
}

/// The response; `None` if there is no such path.
async fn get_json<T: DeserializeOwned>(client: &Client, path: &str) -> Result<Option<T>, Fault> {
    let request = hyper::Request::get(path).body(Vec::new());
    let request = request.map_err(|error| Fault::Unreadable(error.to_string()))?;
    match time::timeout(REQUEST_TIMEOUT, client.request::<T>(request)).await {
        Ok(Ok(answer)) => Ok(Some(answer)),
        Ok(Err(error)) => match Fault::from_error(&error) {
            Fault::NoSuchApi => Ok(None),
            fault => Err(fault),
        },
        Err(_) => Err(Fault::Unreachable("discovery timed out".to_owned())),
    }
}

/// Reports the kinds, and each change.
pub(super) async fn poll_kinds(client: Client, reports: mpsc::Sender<WatchReport>, mut pulse: RestartSignal) {
    let (mut told, mut backoff) = (ReportedKinds::default(), Backoff::default());
    loop {
        let pause = match discover(&client).await {
            Ok(now) => {
                backoff.reset();
                if let Some(news) = told.update(now, Instant::now())
                    && send_report(&reports, news).await.is_err()
                {
                    return;
                }
                DISCOVERY_INTERVAL
            }
            // Without permission for discovery no CRD is visible; everything else is served. Kinds that were seen before stay: a
            // lost permission says nothing about the objects.
            Err(fault @ Fault::Denied(_)) => {
                if let Some(news) = told.report_none() {
                    tracing::warn!(%fault, "the kinds of the Gateway API cannot be discovered; none is served");
                    if send_report(&reports, news).await.is_err() {
                        return;
                    }
                }
                DISCOVERY_INTERVAL
            }
            Err(fault) => {
                tracing::debug!(%fault, "the kinds of the Gateway API cannot be discovered; retrying");
                backoff.next_delay()
            }
        };
        tokio::select! {
            () = time::sleep(pause) => {}
            _ = pulse.changed() => {}
        }
    }
}

async fn send_report(reports: &mpsc::Sender<WatchReport>, offered: OfferedKinds) -> Result<(), ()> {
    let report = WatchReport { id: WatchId(0), at: Instant::now(), event: WatchEvent::Offered(offered) };
    reports.send(report).await.map_err(|_| ())
}

/// The kinds that were reported, and since when some are missing.
#[derive(Debug, Default)]
struct ReportedKinds {
    offered: Option<OfferedKinds>,
    missing: Option<Instant>,
}

impl ReportedKinds {
    /// Reports that there are no kinds, unless some were reported before.
    fn report_none(&mut self) -> Option<OfferedKinds> {
        self.offered.is_none().then(|| self.offered.insert(OfferedKinds::new()).clone())
    }

    /// What to report after a response; `None` if nothing changed or a missing kind may come back.
    fn update(&mut self, now: OfferedKinds, at: Instant) -> Option<OfferedKinds> {
        let Some(before) = &self.offered else {
            self.offered = Some(now.clone());
            return Some(now);
        };
        if now == *before {
            self.missing = None;
            return None;
        }
        let lacks = before.iter().any(|(kind, versions)| {
            now.get(kind).is_none_or(|offered| versions.iter().any(|version| !offered.contains(version)))
        });
        let since = *self.missing.get_or_insert(at);
        let applied = if lacks && at < since + REMOVAL_DELAY { with_missing(&now, before) } else { now };
        if !lacks || at >= since + REMOVAL_DELAY {
            self.missing = None;
        }
        if applied == *before {
            return None;
        }
        self.offered = Some(applied.clone());
        Some(applied)
    }
}

/// The kinds of both.
fn with_missing(now: &OfferedKinds, before: &OfferedKinds) -> OfferedKinds {
    let mut both = now.clone();
    for (kind, versions) in before {
        both.entry(*kind).or_default().extend(versions);
    }
    both
}

#[cfg(test)]
mod tests {
    use fairway_objects::kinds::Kind;

    use super::*;

    fn routes(versions: &[&'static str]) -> OfferedKinds {
        [(Kind::HttpRoute, versions.iter().copied().collect())].into()
    }

    #[test]
    fn a_kind_is_removed_only_after_it_was_missing_for_a_while() {
        let (mut told, begun) = (ReportedKinds::default(), Instant::now());
        assert_eq!(told.update(routes(&["v1"]), begun), Some(routes(&["v1"])));
        assert_eq!(told.update(OfferedKinds::new(), begun), None);
        assert_eq!(told.update(routes(&["v1"]), begun + REMOVAL_DELAY), None, "it is back");
        assert_eq!(told.update(OfferedKinds::new(), begun + REMOVAL_DELAY), None, "and missing anew");
        assert_eq!(told.update(OfferedKinds::new(), begun + REMOVAL_DELAY * 2), Some(OfferedKinds::new()));
    }

    #[test]
    fn without_permission_no_kind_is_reported_unless_one_was_seen() {
        let (mut told, begun) = (ReportedKinds::default(), Instant::now());
        assert_eq!(told.report_none(), Some(OfferedKinds::new()));
        assert_eq!(told.report_none(), None, "it is told once");
        assert_eq!(told.update(routes(&["v1"]), begun), Some(routes(&["v1"])));
        assert_eq!(told.report_none(), None);
        assert_eq!(
            told.update(routes(&["v1"]), begun + REMOVAL_DELAY * 2),
            None,
            "nothing was taken away meanwhile"
        );
    }

    #[test]
    fn a_new_kind_is_reported_at_once_even_while_another_is_missing() {
        let (mut told, begun) = (ReportedKinds::default(), Instant::now());
        assert_eq!(told.update(OfferedKinds::new(), begun), Some(OfferedKinds::new()), "there is none");
        assert_eq!(told.update(routes(&["v1"]), begun), Some(routes(&["v1"])));
        let grants: OfferedKinds = [(Kind::ReferenceGrant, ["v1"].into())].into();
        let event = told.update(grants, begun).unwrap();
        assert_eq!(event.keys().collect::<Vec<_>>(), [&Kind::HttpRoute, &Kind::ReferenceGrant]);
    }
}
