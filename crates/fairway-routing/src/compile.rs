//! Compiles a configuration into a snapshot, at a cost proportional to what changed since the previous one.

use std::sync::Arc;

use fairway_model::{Backend, BackendKey, Config, HostKey, Origin, StreamKey, StreamRoute, VirtualHost};
use imbl::OrdMap;
use imbl::ordmap::DiffItem;

use crate::host::CompiledHost;
use crate::ports::{Http3Rules, Ports};
use crate::problem::Problem;
use crate::rule::CompiledRule;
use crate::snapshot::Snapshot;

/// A snapshot, and what could not be compiled.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The compiled configuration.
    pub snapshot: Arc<Snapshot>,
    /// All problems, including those already in the previous snapshot: of listeners, then of hosts.
    pub problems: Vec<Problem>,
}

/// Compiles `config`. Unchanged hosts and backends are shared with `previous`; slots and table ids stay the same.
#[must_use]
pub fn compile(config: &Config, previous: Option<&Snapshot>) -> Compiled {
    let mut snapshot = previous.cloned().unwrap_or_default();
    snapshot.version += 1;
    let before = std::mem::replace(&mut snapshot.config, config.clone());
    let mut problems = Vec::new();
    let listeners_changed = before.listeners != config.listeners;
    let http3 = Http3Rules::from_settings(&config.settings.downstream);
    if listeners_changed || http3 != Http3Rules::from_settings(&before.settings.downstream) {
        snapshot.ports = Arc::new(Ports::from_listeners(&config.listeners, http3));
    }
    if listeners_changed {
        for listener in config.listeners.values().filter(|listener| listener.protocol.is_http()) {
            let tables = [&listener.table].into_iter().chain(&listener.routes);
            if tables.map(|table| snapshot.hosts.ensure(table)).any(|id| id.is_none()) {
                let origin = listener.origin.clone();
                problems.push(Problem { origin, text: TOO_MANY_TABLES.to_owned() });
            }
        }
        snapshot.hosts.put_beside(&config.listeners);
    }
    problems.extend(snapshot.ports.problems.iter().cloned());
    snapshot.adopt_backends(&before.backends, &config.backends);
    snapshot.adopt_streams(&before.streams, &config.streams);
    let removed = snapshot.adopt_hosts(&before.hosts, &config.hosts, &mut problems);
    if removed || listeners_changed {
        snapshot.hosts.forget_unused(&config.listeners);
    }
    snapshot.slots.sweep();
    problems.extend(snapshot.flawed.values().flat_map(|host| host.problems().iter().cloned()));
    Compiled { snapshot: Arc::new(snapshot), problems }
}

const TOO_MANY_TABLES: &str = "there are 65,536 route tables already; this one is not served";

impl Snapshot {
    fn adopt_backends(
        &mut self,
        before: &OrdMap<BackendKey, Arc<Backend>>,
        now: &OrdMap<BackendKey, Arc<Backend>>,
    ) {
        for change in before.diff(now) {
            match change {
                DiffItem::Add(_, backend) | DiffItem::Update { new: (_, backend), .. } => {
                    self.slots.set(backend);
                }
                DiffItem::Remove(key, _) => self.slots.unset(key),
            }
        }
    }

    fn adopt_streams(
        &mut self,
        before: &OrdMap<StreamKey, Arc<StreamRoute>>,
        now: &OrdMap<StreamKey, Arc<StreamRoute>>,
    ) {
        for change in before.diff(now) {
            match change {
                DiffItem::Add(key, route) | DiffItem::Update { new: (key, route), .. } => {
                    self.streams.replace(key, Some(&**route), &mut self.slots);
                }
                DiffItem::Remove(key, _) => self.streams.replace(key, None, &mut self.slots),
            }
        }
    }

    /// Returns whether a host was removed.
    fn adopt_hosts(
        &mut self,
        before: &OrdMap<HostKey, Arc<VirtualHost>>,
        now: &OrdMap<HostKey, Arc<VirtualHost>>,
        problems: &mut Vec<Problem>,
    ) -> bool {
        let mut removed = false;
        for change in before.diff(now) {
            match change {
                DiffItem::Remove(key, _) => {
                    removed = true;
                    self.replace_host(key, None);
                }
                DiffItem::Add(key, model) | DiffItem::Update { new: (key, model), .. } => {
                    if self.hosts.ensure(&key.table).is_none() {
                        let origin = Origin::object("VirtualHost", &key.table, &key.host.to_string());
                        problems.push(Problem { origin, text: TOO_MANY_TABLES.to_owned() });
                        continue;
                    }
                    let host = CompiledHost::compiled(model, &mut self.slots);
                    self.reads_server_names |= host.rules().iter().any(CompiledRule::reads_server_name);
                    self.replace_host(key, Some(Arc::new(host)));
                }
            }
        }
        removed
    }

    fn replace_host(&mut self, key: &HostKey, host: Option<Arc<CompiledHost>>) {
        match host.as_ref().filter(|host| !host.problems().is_empty()) {
            Some(host) => self.flawed.insert(key.clone(), host.clone()),
            None => self.flawed.remove(key),
        };
        if let Some(gone) = self.hosts.replace(key, host) {
            gone.release(&mut self.slots);
        }
    }
}
