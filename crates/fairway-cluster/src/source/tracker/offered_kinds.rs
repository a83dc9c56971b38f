//! The Gateway API kinds of the cluster: watches start and stop with them. When the version of a kind changes, its objects stay
//! until they are listed in the new version.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_objects::kinds::{GATEWAY_KINDS, GROUP, Kind};
use tokio::time::Instant;

use super::{GatewayKinds, TrackedObject, Tracker};
use crate::source::collection::{Collection, OfferedKinds, WatchedKind};
use crate::source::trimmed::Version;
use crate::source::watch::WatchId;

impl Tracker {
    /// Handles the kinds that the cluster serves now.
    pub(super) fn handle_offered(&mut self, offered: &OfferedKinds, at: Instant) {
        let before = match &self.scope.gateways {
            GatewayKinds::Unknown => BTreeMap::new(),
            GatewayKinds::Known(before) => before.clone(),
        };
        let now: BTreeMap<_, _> = offered
            .iter()
            .filter_map(|(kind, versions)| {
                // A watch keeps its version as long as the cluster serves it.
                let known_version = before.get(kind).copied().filter(|version| versions.contains(version));
                let best = || kind.api()?.preferred(|version| versions.contains(version));
                Some((*kind, known_version.or_else(best)?))
            })
            .collect();
        if self.scope.gateways == GatewayKinds::Unknown || !before.keys().eq(now.keys()) {
            log_kinds(&now);
        }
        self.scope.gateways = GatewayKinds::Known(now.clone());
        for (kind, version) in &now {
            if before.get(kind) != Some(version) {
                self.watch_gateway_kind(*kind, version);
            }
        }
        for (kind, version) in before.iter().filter(|(kind, version)| now.get(kind) != Some(version)) {
            self.end_kind(*kind, version, now.get(kind).copied(), at);
        }
        match (before.is_empty(), now.is_empty()) {
            (true, false) => drop(self.ensure_watch(Collection::all(Kind::Namespace))),
            (false, true) => self.end_watch(&Collection::all(Kind::Namespace), at),
            _ => {}
        }
        self.start_waiting_watches();
    }

    /// The Gateway API collections of a namespace.
    pub(super) fn gateway_collections_in(&self, namespace: &Arc<str>) -> Vec<Collection> {
        let GatewayKinds::Known(kinds) = &self.scope.gateways else { return Vec::new() };
        let namespaced = kinds.iter().filter(|(kind, _)| kind.is_namespaced());
        namespaced.map(|(kind, version)| Collection::within(*kind, namespace).in_version(version)).collect()
    }

    fn watch_gateway_kind(&mut self, kind: Kind, version: &'static str) {
        let mut collections = self.scope.selection.gateway_collections(kind, version);
        if kind.is_namespaced() {
            // Namespaces that were selected by their labels.
            let selected = self.entries.keys().filter(|(kind, _)| *kind == WatchedKind::NamespaceNames);
            let within = |key: &Arc<str>| Collection::within(kind, key).in_version(version);
            collections.extend(selected.map(|(_, key)| within(&key.name)));
        }
        for collection in collections {
            self.ensure_watch(collection);
        }
    }

    /// Ends the watches of a kind in a version; `next` is the version watched from now on, if any.
    fn end_kind(&mut self, kind: Kind, version: &str, next: Option<&'static str>, at: Instant) {
        let of_it = |it: &&Collection| it.kind == WatchedKind::Objects(kind) && it.version == version;
        let collections: Vec<_> = self.ids.keys().filter(of_it).cloned().collect();
        for collection in collections {
            let in_next = next.map(|next| collection.clone().in_version(next));
            match in_next.and_then(|it| self.ids.get(&it).copied()) {
                Some(heir) => self.hand_over(&collection, heir),
                None => self.end_watch(&collection, at),
            }
        }
    }

    /// Stops a watch whose objects another one lists from now on; what that list lacks is removed when it is complete.
    fn hand_over(&mut self, collection: &Collection, heir: WatchId) {
        let Some((id, before)) = self.stop_watch(collection) else { return };
        let Some(progress) = self.watches.get_mut(&heir) else { return };
        // They count as objects of a list before its first one.
        progress.round += 1;
        progress.listed = before.listed;
        let round = progress.round;
        for entry in self.entries.values_mut().filter(|entry| entry.watch == id) {
            // The new version may have more fields, so listed objects are sent even if their resource version is unchanged.
            *entry = TrackedObject { version: Version::default(), watch: heir, round, ..*entry };
        }
    }
}

/// Logs the kinds that are served and those that are missing.
fn log_kinds(kinds: &BTreeMap<Kind, &'static str>) {
    if kinds.is_empty() {
        tracing::info!("the cluster has no CRDs of the Gateway API; they are used once installed");
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
