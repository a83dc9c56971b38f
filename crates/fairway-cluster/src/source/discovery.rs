//! Which kinds of the Gateway API the cluster has, and in which versions: asked again and again, because CRDs are installed and
//! removed while Fairway runs. Owns the requests and how long a kind must be gone before it counts as removed; never watches.
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
use super::collection::Offered;
use super::fault::Fault;
use super::probe::Pulse;
use super::watch::{WatchEvent, WatchId, WatchReport};

/// How often it is asked.
const AGAIN: Duration = Duration::from_secs(5);
/// A kind that is missing for so long is gone: while CRDs are replaced, or an API server starts, it may be missing for a moment.
const GONE: Duration = Duration::from_secs(20);
/// An answer is there within this time.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks once.
pub(super) async fn offered(client: &Client) -> Result<Offered, Fault> {
    let mut offered = Offered::new();
    for group in [GROUP, POLICY_GROUP, INFERENCE_GROUP] {
        offered_of(client, group, &mut offered).await?;
    }
    Ok(offered)
}

async fn offered_of(client: &Client, group: &str, offered: &mut Offered) -> Result<(), Fault> {
    let found = ask::<APIGroup>(client, &format!("/apis/{group}")).await?;
    let versions: Vec<_> = found.map(|group| group.versions).unwrap_or_default();
    for version in versions.iter().filter_map(|it| known_version(&it.version)) {
        // One that has gone since the group was asked for offers nothing.
        let Some(list) = ask::<APIResourceList>(client, &format!("/apis/{group}/{version}")).await? else {
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

/// The version among those that are read of any kind.
fn known_version(version: &str) -> Option<&'static str> {
    GATEWAY_KINDS.iter().flat_map(|known| known.versions).copied().find(|known| *known == version)
}

/// The answer, where there is such a path.
async fn ask<T: DeserializeOwned>(client: &Client, path: &str) -> Result<Option<T>, Fault> {
    let request = hyper::Request::get(path).body(Vec::new());
    let request = request.map_err(|error| Fault::Unreadable(error.to_string()))?;
    match time::timeout(PATIENCE, client.request::<T>(request)).await {
        Ok(Ok(answer)) => Ok(Some(answer)),
        Ok(Err(error)) => match Fault::of(&error) {
            Fault::NoSuchApi => Ok(None),
            fault => Err(fault),
        },
        Err(_) => Err(Fault::Unreachable("discovery was not answered in time".to_owned())),
    }
}

/// Tells what there is, and whenever it is different.
pub(super) async fn follow(client: Client, reports: mpsc::Sender<WatchReport>, mut pulse: Pulse) {
    let (mut told, mut backoff) = (Told::default(), Backoff::default());
    loop {
        let pause = match offered(&client).await {
            Ok(now) => {
                backoff.reset();
                if let Some(news) = told.news(now, Instant::now())
                    && report(&reports, news).await.is_err()
                {
                    return;
                }
                AGAIN
            }
            // Whoever may not discover sees no CRD; everything else is served. What was seen before stays: a permission that is
            // gone says nothing about the objects.
            Err(fault @ Fault::Denied(_)) => {
                if let Some(news) = told.nothing() {
                    tracing::warn!(%fault, "which kinds of the Gateway API there are cannot be asked for; none is served");
                    if report(&reports, news).await.is_err() {
                        return;
                    }
                }
                AGAIN
            }
            Err(fault) => {
                tracing::debug!(%fault, "the kinds of the Gateway API cannot be asked for; tried again");
                backoff.next()
            }
        };
        tokio::select! {
            () = time::sleep(pause) => {}
            _ = pulse.changed() => {}
        }
    }
}

async fn report(reports: &mpsc::Sender<WatchReport>, offered: Offered) -> Result<(), ()> {
    let report = WatchReport { id: WatchId(0), at: Instant::now(), event: WatchEvent::Offered(offered) };
    reports.send(report).await.map_err(|_| ())
}

/// What was told, and since when some of it is missing.
#[derive(Debug, Default)]
struct Told {
    offered: Option<Offered>,
    missing: Option<Instant>,
}

impl Told {
    /// That there is no kind, unless something was told before.
    fn nothing(&mut self) -> Option<Offered> {
        self.offered.is_none().then(|| self.offered.insert(Offered::new()).clone())
    }

    /// What to tell of an answer: nothing where it says the same, or where a kind may be back in a moment.
    fn news(&mut self, now: Offered, at: Instant) -> Option<Offered> {
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
        let told = if lacks && at < since + GONE { with_missing(&now, before) } else { now };
        if !lacks || at >= since + GONE {
            self.missing = None;
        }
        if told == *before {
            return None;
        }
        self.offered = Some(told.clone());
        Some(told)
    }
}

/// What is there now and what was there before.
fn with_missing(now: &Offered, before: &Offered) -> Offered {
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

    fn routes(versions: &[&'static str]) -> Offered {
        [(Kind::HttpRoute, versions.iter().copied().collect())].into()
    }

    #[test]
    fn a_kind_that_is_missing_for_a_moment_stays_and_one_that_stays_away_is_gone() {
        let (mut told, begun) = (Told::default(), Instant::now());
        assert_eq!(told.news(routes(&["v1"]), begun), Some(routes(&["v1"])));
        assert_eq!(told.news(Offered::new(), begun), None);
        assert_eq!(told.news(routes(&["v1"]), begun + GONE), None, "it is back");
        assert_eq!(told.news(Offered::new(), begun + GONE), None, "and missing anew");
        assert_eq!(told.news(Offered::new(), begun + GONE * 2), Some(Offered::new()));
    }

    #[test]
    fn without_a_permission_there_is_none_until_one_was_seen() {
        let (mut told, begun) = (Told::default(), Instant::now());
        assert_eq!(told.nothing(), Some(Offered::new()));
        assert_eq!(told.nothing(), None, "it is told once");
        assert_eq!(told.news(routes(&["v1"]), begun), Some(routes(&["v1"])));
        assert_eq!(told.nothing(), None);
        assert_eq!(told.news(routes(&["v1"]), begun + GONE * 2), None, "nothing was taken away meanwhile");
    }

    #[test]
    fn a_kind_that_comes_is_told_at_once_also_while_another_is_missing() {
        let (mut told, begun) = (Told::default(), Instant::now());
        assert_eq!(told.news(Offered::new(), begun), Some(Offered::new()), "there is none");
        assert_eq!(told.news(routes(&["v1"]), begun), Some(routes(&["v1"])));
        let grants: Offered = [(Kind::ReferenceGrant, ["v1"].into())].into();
        let news = told.news(grants, begun).unwrap();
        assert_eq!(news.keys().collect::<Vec<_>>(), [&Kind::HttpRoute, &Kind::ReferenceGrant]);
    }
}
