//! The kinds of the Gateway API that the cluster has: their watches begin and end with them. Until a kind is listed in
//! another version of its API, its objects stay as they were.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_objects::kinds::{GATEWAY_KINDS, GROUP, Kind};
use tokio::time::Instant;

use super::{Entry, Gateways, Tracker};
use crate::source::collection::{Collection, Offered, Watched};
use crate::source::trimmed::Version;
use crate::source::watch::WatchId;

impl Tracker {
    /// Takes what the cluster has now.
    pub(super) fn offered(&mut self, offered: &Offered, at: Instant) {
        let before = match &self.scope.gateways {
            Gateways::Unknown => BTreeMap::new(),
            Gateways::Known(before) => before.clone(),
        };
        let now: BTreeMap<_, _> = offered
            .iter()
            .filter_map(|(kind, versions)| {
                // A watch goes on in the version that it has, as long as there is that one.
                let kept = before.get(kind).copied().filter(|version| versions.contains(version));
                let best = || kind.api()?.preferred(|version| versions.contains(version));
                Some((*kind, kept.or_else(best)?))
            })
            .collect();
        if self.scope.gateways == Gateways::Unknown || !before.keys().eq(now.keys()) {
            announce(&now);
        }
        self.scope.gateways = Gateways::Known(now.clone());
        for (kind, version) in &now {
            if before.get(kind) != Some(version) {
                self.watch_of_gateways(*kind, version);
            }
        }
        for (kind, version) in before.iter().filter(|(kind, version)| now.get(kind) != Some(version)) {
            self.end_kind(*kind, version, now.get(kind).copied(), at);
        }
        match (before.is_empty(), now.is_empty()) {
            (true, false) => drop(self.begin(Collection::all(Kind::Namespace))),
            (false, true) => self.end(&Collection::all(Kind::Namespace), at),
            _ => {}
        }
        self.end_waiting();
    }

    /// The collections of the Gateway API in a namespace.
    pub(super) fn gateways_in(&self, namespace: &Arc<str>) -> Vec<Collection> {
        let Gateways::Known(kinds) = &self.scope.gateways else { return Vec::new() };
        let namespaced = kinds.iter().filter(|(kind, _)| kind.is_namespaced());
        namespaced.map(|(kind, version)| Collection::within(*kind, namespace).in_version(version)).collect()
    }

    fn watch_of_gateways(&mut self, kind: Kind, version: &'static str) {
        let mut wanted = self.scope.selection.of_gateways(kind, version);
        if kind.is_namespaced() {
            // Those that were selected by their labels.
            let selected = self.entries.keys().filter(|(kind, _)| *kind == Watched::Selection);
            let within = |key: &Arc<str>| Collection::within(kind, key).in_version(version);
            wanted.extend(selected.map(|(_, key)| within(&key.name)));
        }
        for collection in wanted {
            self.begin(collection);
        }
    }

    /// Ends the watches of a kind in a version; `next` is the one in which it is watched from now on, if any.
    fn end_kind(&mut self, kind: Kind, version: &str, next: Option<&'static str>, at: Instant) {
        let of_it = |it: &&Collection| it.kind == Watched::Objects(kind) && it.version == version;
        let collections: Vec<_> = self.ids.keys().filter(of_it).cloned().collect();
        for collection in collections {
            let in_next = next.map(|next| collection.clone().in_version(next));
            match in_next.and_then(|it| self.ids.get(&it).copied()) {
                Some(heir) => self.hand_over(&collection, heir),
                None => self.end(&collection, at),
            }
        }
    }

    /// Ends a watch whose objects another one lists from now on: what that lacks is removed when its list is complete.
    fn hand_over(&mut self, collection: &Collection, heir: WatchId) {
        let Some((id, before)) = self.stop(collection) else { return };
        let Some(progress) = self.watches.get_mut(&heir) else { return };
        // They count as those of a list before its first one.
        progress.round += 1;
        progress.listed = before.listed;
        let round = progress.round;
        for entry in self.entries.values_mut().filter(|entry| entry.watch == id) {
            // The other version may have more fields, so that what is listed is passed on even if the object did not change.
            *entry = Entry { version: Version::default(), watch: heir, round, ..*entry };
        }
    }
}

/// Says what there is, and what there is not.
fn announce(kinds: &BTreeMap<Kind, &'static str>) {
    if kinds.is_empty() {
        tracing::info!("the cluster has no CRDs of the Gateway API; they are served once they are installed");
        return;
    }
    let names: Vec<_> = kinds.iter().map(|(kind, version)| format!("{}/{version}", kind.name())).collect();
    tracing::info!(kinds = names.join(", "), "the cluster has CRDs of the Gateway API");
    let missing = GATEWAY_KINDS.iter().filter(|it| it.group == GROUP && !kinds.contains_key(&it.kind));
    let missing: Vec<_> = missing.map(|it| it.name).collect();
    if !missing.is_empty() {
        let kinds = missing.join(", ");
        tracing::info!(
            kinds,
            "the cluster lacks CRDs of the Gateway API; such objects are served once they are installed"
        );
    }
}
