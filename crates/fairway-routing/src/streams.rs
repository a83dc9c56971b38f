//! Routes for non-HTTP connections: the stream routes of all tables by server name. Persistent: a new snapshot shares
//! all routes that did not change.

use std::sync::Arc;

use fairway_model::{ReferenceStatus, StreamKey, StreamPolicy, StreamRoute};
use imbl::OrdMap;

use crate::ports::ByName;
use crate::slots::{BackendSlot, Slots};
use crate::targets::Weighted;

/// A compiled stream route. The same value in all snapshots while the route does not change.
#[derive(Debug, PartialEq, Eq)]
pub struct CompiledStream {
    targets: Weighted<Option<BackendSlot>>,
    /// Of all backends, including those without a share.
    slots: Box<[BackendSlot]>,
    key: StreamKey,
    policy: StreamPolicy,
}

/// The stream routes of all tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    tables: OrdMap<Arc<str>, ByName<Arc<CompiledStream>>>,
}

impl CompiledStream {
    /// The weighted backends; connections of a share without a backend are closed.
    #[must_use]
    pub fn targets(&self) -> &Weighted<Option<BackendSlot>> {
        &self.targets
    }

    /// All of its backends, including those without a share.
    #[must_use]
    pub fn slots(&self) -> &[BackendSlot] {
        &self.slots
    }

    /// How its connections are forwarded.
    #[must_use]
    pub fn policy(&self) -> StreamPolicy {
        self.policy
    }

    /// Its table and host pattern.
    #[must_use]
    pub fn key(&self) -> &StreamKey {
        &self.key
    }

    /// Acquires the slots of its backends; [`Self::release`] releases them.
    fn compiled(model: &StreamRoute, slots: &mut Slots) -> Self {
        let slots: Box<[_]> = model.backends.iter().map(|target| slots.acquire(&target.backend)).collect();
        let shares = model.backends.iter().zip(&slots).map(|(one, slot)| {
            let resolved = one.reference == ReferenceStatus::Resolved;
            (resolved.then_some(*slot), one.weight)
        });
        Self { targets: Weighted::new(shares), slots, key: model.key.clone(), policy: model.policy }
    }

    fn release(&self, slots: &mut Slots) {
        self.slots.iter().for_each(|slot| slots.release(*slot));
    }
}

impl Streams {
    /// The route of a connection whose client requests `name` (lower case), or no name.
    pub(crate) fn find(&self, table: &str, name: Option<&str>) -> Option<&Arc<CompiledStream>> {
        self.tables.get(table)?.choose(name)
    }

    /// Whether a table has any routes.
    pub(crate) fn has(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    /// Replaces or removes the route at `key`.
    pub(crate) fn replace(&mut self, key: &StreamKey, route: Option<&StreamRoute>, slots: &mut Slots) {
        let compiled = route.map(|route| Arc::new(CompiledStream::compiled(route, slots)));
        let mut table = self.tables.get(&key.table).cloned().unwrap_or_default();
        let before = table.replace(&key.host, compiled);
        match table.is_empty() {
            true => self.tables.remove(&key.table),
            false => self.tables.insert(key.table.clone(), table),
        };
        if let Some(gone) = before {
            gone.release(slots);
        }
    }
}

#[cfg(test)]
mod tests {
    use fairway_model::{
        Config, HostKey, HostPattern, Origin, PathForm, RuleOrder, StreamPolicy, VirtualHost,
        WeightedBackend, WildcardSpan,
    };

    use crate::compile;

    use super::*;

    fn route(host: &str, backends: &[(&str, u32)]) -> StreamRoute {
        let host = HostPattern::parse(host, WildcardSpan::ManyLabels).unwrap();
        let backends = backends.iter().map(|(name, weight)| WeightedBackend::new((*name).into(), *weight));
        StreamRoute {
            key: StreamKey { table: "t".into(), host },
            origin: Origin::object("TLSRoute", "shop", "db"),
            backends: backends.collect(),
            policy: StreamPolicy::default(),
        }
    }

    fn config(routes: &[StreamRoute]) -> Config {
        let mut config = Config::default();
        for route in routes {
            config.streams.insert(route.key.clone(), Arc::new(route.clone()));
        }
        config
    }

    #[test]
    fn the_most_specific_route_of_the_table_gets_the_connection() {
        let all =
            [route("a.test", &[("one", 1)]), route("*.test", &[("two", 1)]), route("", &[("three", 1)])];
        let first = compile(&config(&all), None).snapshot;
        let host = |name| first.stream("t", name).map(|stream| stream.key().host.to_string());
        assert_eq!(host(Some("a.test")).as_deref(), Some("a.test"));
        assert_eq!(host(Some("b.test")).as_deref(), Some("*.test"));
        assert_eq!((host(Some("org")), host(None)), (host(None), host(Some("org"))));
        assert!(host(None).is_some() && first.stream("other", None).is_none());
        let second = compile(&config(&all[..2]), Some(&first)).snapshot;
        assert!(second.stream("t", None).is_none());
        let (before, after) = (first.stream("t", Some("a.test")), second.stream("t", Some("a.test")));
        assert!(Arc::ptr_eq(before.unwrap(), after.unwrap()), "what did not change is shared");
        let third = compile(&Config::default(), Some(&second)).snapshot;
        assert!(third.stream("t", Some("a.test")).is_none());
    }

    #[test]
    fn the_most_specific_host_decides_whether_its_tls_passes_through() {
        let mut config = config(&[route("*.test", &[("one", 1)]), route("a.b.test", &[("two", 1)])]);
        for host in ["", "*.test", "shop.test", "*.b.test", "a.b.test"] {
            let host = HostPattern::parse(host, WildcardSpan::ManyLabels).unwrap();
            let key = HostKey { table: "t".into(), host };
            let host = VirtualHost {
                key: key.clone(),
                order: RuleOrder::Precedence,
                path_form: PathForm::Decoded,
                routes: Vec::new(),
                certificate: None,
                clients: None,
                suites: None,
                falls_through: false,
            };
            config.hosts.insert(key, Arc::new(host));
        }
        let snapshot = compile(&config, None).snapshot;
        let passed = |name| snapshot.passthrough_route("t", name).map(|stream| stream.key().host.to_string());
        for (name, by) in [
            ("a.b.test", Some("a.b.test")),
            ("c.b.test", None),
            ("shop.test", None),
            ("other.test", Some("*.test")),
            ("x.y.test", Some("*.test")),
            ("test", None),
        ] {
            assert_eq!(passed(name).as_deref(), by, "{name}");
        }
        assert!(snapshot.has_streams("t") && !snapshot.has_streams("u"));
    }

    #[test]
    fn backends_follow_their_routes() {
        let first = compile(&config(&[route("", &[("one", 0), ("two", 3)])]), None).snapshot;
        let slot = |snapshot: &crate::Snapshot, name: &str| snapshot.slot(&name.into());
        let (one, two) = (slot(&first, "one"), slot(&first, "two"));
        assert!(one.is_some());
        assert_eq!(first.stream("t", None).unwrap().targets(), &Weighted::new([(Some(two.unwrap()), 3)]));
        let second = compile(&config(&[route("", &[("two", 0)])]), Some(&first)).snapshot;
        assert_eq!((slot(&second, "one"), slot(&second, "two")), (None, two));
        assert_eq!(second.stream("t", None).unwrap().targets(), &Weighted::new([]));
    }
}
