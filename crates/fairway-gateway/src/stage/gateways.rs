//! Reads the marked Gateways with their ListenerSets, and marks the affected routes and hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fairway_model::{HostKey, HostPattern, Origin};
use fairway_objects::gateway_api as types;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};

use crate::client_traffic::decides_about_clients;
use crate::condition::Fault;
use crate::gateway::{self, GatewayInput, GatewayReading, Listener, ListenerOwner, Parent};
use crate::hostname;
use crate::listener::{self, Context, ListenerEntry, ListenerId, ListenerSource};
use crate::placement::PortClaimant;
use crate::shared::{SharedAddress, SharedHost};
use crate::state::Gateways;
use crate::work::Work;

/// Listener hosts by table, and whether the table is an HTTP table.
type TableHosts = BTreeSet<TableHost>;
type TableHost = (Arc<str>, HostPattern, bool);

/// A ListenerSet, why its Gateway does not accept it, and its listeners.
pub(crate) type ListenerSetEntries = (ObjectRef, Origin, Option<Fault>, Arc<[Arc<ListenerEntry>]>);

impl Gateways {
    /// Reads Gateways.
    pub(crate) fn read_gateways(&mut self, context: Context<'_>, work: &mut Work) {
        self.claim_shared_hosts(context, work);
        let mut exchanged = Vec::new();
        for key in std::mem::take(&mut work.gateways) {
            let reading = self.read_gateway(&key, context, work);
            let hosts = table_hosts(reading.as_ref());
            let before = self.store_gateway(&key, reading, work);
            exchanged.push((table_hosts(before.as_deref()), hosts));
        }
        // A host of a table may move from one Gateway to another.
        exchanged.iter().for_each(|(before, after)| self.leave_tables(before.difference(after), work));
        exchanged.iter().for_each(|(before, after)| self.enter_tables(after.difference(before), work));
        // The rest belongs to no Gateway of this controller.
        for object in std::mem::take(&mut work.entries) {
            if !self.listening.parents.contains_key(&object) {
                self.forget_entries(&object, work);
            }
        }
    }

    fn read_gateway(
        &mut self,
        key: &ObjectKey,
        context: Context<'_>,
        work: &mut Work,
    ) -> Option<GatewayReading> {
        let gateway = context.inputs.resources.gateway.gateways.get(key)?;
        let class = self.class_of(&gateway.object.spec.gateway_class_name)?.clone();
        let reference = ObjectRef::new(Kind::Gateway, key.clone());
        let own_entries = self.entries(&reference, context, work);
        let all = self.listener_sets(key, &gateway.object, context, work);
        let members = all.iter().map(|(set, origin, refused, entries)| ListenerOwner {
            reference: set.clone(),
            origin: origin.clone(),
            refused: refused.clone(),
            entries,
        });
        let sets = members.collect();
        let is_shared = gateway::is_shared(key, &gateway.object, &class, context.inputs);
        let foreign_owner = |host: &SharedHost| self.other_owner_of_shared_host(key, host);
        let has_policy = |entry: &ListenerEntry| decides_about_clients(&self.own_policies, key, &entry.id);
        let ingresses = &context.inputs.options.listeners;
        let shared = is_shared.then_some(SharedAddress {
            ingresses,
            other_owner: &foreign_owner,
            has_policy: &has_policy,
        });
        let written = GatewayInput { key, gateway, class: &class, sets, entries: &own_entries, shared };
        Some(gateway::read(&written, context))
    }

    /// The ListenerSets of a Gateway in order of precedence, with the reason if they are not accepted, and their
    /// listeners.
    pub(crate) fn listener_sets(
        &mut self,
        key: &ObjectKey,
        gateway: &types::Gateway,
        context: Context<'_>,
        work: &mut Work,
    ) -> Vec<ListenerSetEntries> {
        let objects = &context.inputs.resources.gateway;
        let reference = ObjectRef::new(Kind::Gateway, key.clone());
        let sets = self.naming.dependent(&reference).filter_map(|set| {
            let object = objects.listener_sets.get(&set.key)?;
            let created = object.object.metadata.creation_timestamp.as_ref();
            let origin = object.origin(Kind::ListenerSet, &set.key, "");
            Some((created.map_or(i64::MAX, |at| at.0.as_second()), set.clone(), origin))
        });
        let mut sets: Vec<(i64, ObjectRef, Origin)> = sets.collect();
        sets.sort_by(|(a, first, _), (b, second, _)| (a, first).cmp(&(b, second)));
        let read = |(_, set, origin): (i64, ObjectRef, Origin)| {
            let refused = gateway::listener_set_refusal(gateway, &key.namespace, &set.key.namespace, context);
            let entries = self.entries(&set, context, work);
            (set, origin, refused, entries)
        };
        sets.into_iter().map(read).collect()
    }

    /// The listeners of an object, read again if marked.
    pub(crate) fn entries(
        &mut self,
        object: &ObjectRef,
        context: Context<'_>,
        work: &mut Work,
    ) -> Arc<[Arc<ListenerEntry>]> {
        let marked = work.entries.remove(object);
        if let Some(known) = self.listening.entries.get(object).filter(|_| !marked) {
            return known.clone();
        }
        let objects = &context.inputs.resources.gateway;
        let entries: Arc<[Arc<ListenerEntry>]> = match object.kind {
            Kind::Gateway => objects.gateways.get(&object.key).map(|it| {
                let origin_of = |field: &str| it.origin(object.kind, &object.key, field);
                read_entries(object, &it.object.spec.listeners, &origin_of, context)
            }),
            _ => objects.listener_sets.get(&object.key).map(|it| {
                let origin_of = |field: &str| it.origin(object.kind, &object.key, field);
                read_entries(object, &it.object.spec.listeners, &origin_of, context)
            }),
        }
        .unwrap_or_default();
        self.set_foreign_namespaces(object, foreign_namespaces(object, context));
        self.listening.entries.insert(object.clone(), entries.clone());
        entries
    }

    fn forget_entries(&mut self, object: &ObjectRef, work: &mut Work) {
        self.listening.entries.remove(object);
        self.set_foreign_namespaces(object, BTreeSet::new());
        work.changes.diagnostics.push((object.clone(), Vec::new()));
        work.statuses.insert(object.clone());
    }

    /// Records the other namespaces to which an object refers.
    pub(crate) fn set_foreign_namespaces(&mut self, object: &ObjectRef, after: BTreeSet<Arc<str>>) {
        let before = self.listening.foreign_of.remove(object).unwrap_or_default();
        before.difference(&after).for_each(|it| self.listening.foreign.remove(it, object));
        after.difference(&before).for_each(|it| self.listening.foreign.add(it, object.clone()));
        if !after.is_empty() {
            self.listening.foreign_of.insert(object.clone(), after);
        }
    }

    /// Stores a Gateway and returns the previous version.
    fn store_gateway(
        &mut self,
        key: &ObjectKey,
        reading: Option<GatewayReading>,
        work: &mut Work,
    ) -> Option<Arc<GatewayReading>> {
        let before = self.listening.readings.remove(key);
        self.replace_parents(before.as_deref(), reading.as_ref(), work);
        self.replace_wanted(key, before.as_deref(), reading.as_ref(), work);
        work.placements.insert(key.clone());
        work.statuses.insert(ObjectRef::new(Kind::Gateway, key.clone()));
        if let Some(reading) = reading {
            self.listening.readings.insert(key.clone(), Arc::new(reading));
        }
        before
    }

    /// Marks the routes of changed parents.
    fn replace_parents(
        &mut self,
        before: Option<&GatewayReading>,
        after: Option<&GatewayReading>,
        work: &mut Work,
    ) {
        let parents_of = |reading: Option<&GatewayReading>| -> BTreeMap<ObjectRef, Arc<Parent>> {
            reading.map(|reading| reading.parents.clone()).unwrap_or_default()
        };
        let (old, new) = (parents_of(before), parents_of(after));
        let shown = |reading: Option<&GatewayReading>| reading.map(|it| it.client_certificate.clone());
        let frontend = |reading: Option<&GatewayReading>| reading.map(|it| it.frontend.clone());
        let all = shown(before) != shown(after) || frontend(before) != frontend(after);
        let is_wanted =
            |reading: Option<&GatewayReading>| reading.is_some_and(|it| it.wanted_gateway.is_some());
        let wanted_changed = is_wanted(before) != is_wanted(after);
        // What a policy can set for one listener depends on the others.
        for reference in old.keys().chain(new.keys()) {
            work.statuses.extend(self.own_policies.policies_for(reference).cloned());
        }
        let gone = old.iter().filter(|(reference, _)| !new.contains_key(*reference));
        for (reference, parent) in gone {
            work.routes.read.extend(self.routes.by_named.users_of(reference).cloned());
            // The ListenerSet may belong to another Gateway by now.
            if self.listening.parents.get(reference).is_some_and(|now| now.gateway == parent.gateway) {
                self.listening.parents.remove(reference);
                self.forget_entries(reference, work);
            }
        }
        for (reference, parent) in new {
            let same = old.get(&reference).is_some_and(|before| *before == parent);
            if same && !all {
                // Its status depends on whether the placement of the Gateway must be known.
                work.statuses.extend(Some(reference).filter(|_| wanted_changed));
                continue;
            }
            work.routes.read.extend(self.routes.by_named.users_of(&reference).cloned());
            work.statuses.insert(reference.clone());
            self.listening.parents.insert(reference, parent);
        }
    }

    /// Marks the hosts that listeners no longer take from others.
    fn leave_tables<'h>(&mut self, hosts: impl Iterator<Item = &'h TableHost>, work: &mut Work) {
        for (table, host, _) in hosts {
            let hosts = self.tables.listeners.entry(table.clone()).or_default();
            hosts.remove(host);
            if hosts.is_empty() {
                self.tables.listeners.remove(table);
                self.tables.streams.remove(table);
            }
            self.mark_covered(table, host, work);
        }
    }

    /// Marks the hosts that listeners take from others.
    fn enter_tables<'h>(&mut self, hosts: impl Iterator<Item = &'h TableHost>, work: &mut Work) {
        for (table, host, is_http) in hosts {
            self.tables.listeners.entry(table.clone()).or_default().insert(host.clone());
            if !is_http {
                self.tables.streams.insert(table.clone());
            }
            self.mark_covered(table, host, work);
        }
    }

    fn mark_covered(&self, table: &Arc<str>, host: &HostPattern, work: &mut Work) {
        let key = |host: &HostPattern| HostKey { table: table.clone(), host: host.clone() };
        work.hosts.insert(key(host));
        if matches!(host, HostPattern::Exact(_)) {
            return;
        }
        let first = key(&HostPattern::Exact("".into()));
        let known = self.tables.hosts.from(first).take_while(|(it, _)| it.table == *table);
        work.hosts.extend(known.filter(|(it, _)| hostname::covers(host, &it.host)).map(|(it, _)| it.clone()));
    }

    fn replace_wanted(
        &mut self,
        key: &ObjectKey,
        before: Option<&GatewayReading>,
        after: Option<&GatewayReading>,
        work: &mut Work,
    ) {
        // A Gateway at the shared address needs no resources and has no ports of its own.
        let wanted_gateway = |reading: Option<&GatewayReading>| {
            reading.filter(|reading| !reading.is_shared).and_then(|reading| reading.wanted_gateway.clone())
        };
        let (before, after) = (wanted_gateway(before), wanted_gateway(after));
        if before == after {
            return;
        }
        for (wanted, port) in before.iter().flat_map(|it| it.each_port().map(move |port| (it, port))) {
            self.listening.ports.remove(&port, &PortClaimant::from_gateway(key, wanted));
            self.mark_port_claimants(&port, work);
        }
        for (wanted, port) in after.iter().flat_map(|it| it.each_port().map(move |port| (it, port))) {
            self.listening.ports.add(&port, PortClaimant::from_gateway(key, wanted));
            self.mark_port_claimants(&port, work);
        }
        match after {
            Some(wanted) => drop(self.translation.wanted_gateways.insert(key.clone(), wanted)),
            None => drop(self.translation.wanted_gateways.remove(key)),
        }
    }
}

fn read_entries(
    object: &ObjectRef,
    listeners: &[types::Listener],
    place: &dyn Fn(&str) -> Origin,
    context: Context<'_>,
) -> Arc<[Arc<ListenerEntry>]> {
    let mut names = BTreeSet::new();
    let entry = |(index, it): (usize, &types::Listener)| {
        let id = ListenerId { owner: object.clone(), name: it.name.as_str().into() };
        let source = ListenerSource { id, origin: place(&format!("spec.listeners[{index}]")) };
        let mut entry = listener::read(source, it, context);
        if !names.insert(entry.id.name.clone()) {
            let problem = format!("another listener before it has the name {}", it.name);
            entry.refused.get_or_insert(Fault::new("UnsupportedValue", problem));
        }
        Arc::new(entry)
    };
    listeners.iter().enumerate().map(entry).collect()
}

/// The other namespaces to which an object refers.
fn foreign_namespaces(object: &ObjectRef, context: Context<'_>) -> BTreeSet<Arc<str>> {
    let objects = &context.inputs.resources.gateway;
    let own_namespace = &object.key.namespace;
    let named: Vec<ObjectKey> = match object.kind {
        Kind::Gateway => objects.gateways.get(&object.key).map(|it| {
            let client = it.object.spec.tls.as_ref().and_then(|tls| tls.backend.as_ref());
            let client = client.and_then(|tls| tls.client_certificate_ref.as_ref());
            listener::named_secrets(&it.object.spec.listeners, own_namespace)
                .chain(client.and_then(|client| listener::secret_key(client, own_namespace)))
                .chain(
                    crate::frontend::named_references(&it.object, own_namespace).into_iter().map(|it| it.key),
                )
                .collect()
        }),
        _ => objects
            .listener_sets
            .get(&object.key)
            .map(|it| listener::named_secrets(&it.object.spec.listeners, own_namespace).collect()),
    }
    .unwrap_or_default();
    named.into_iter().map(|key| key.namespace).filter(|namespace| namespace != own_namespace).collect()
}

fn table_hosts(reading: Option<&GatewayReading>) -> TableHosts {
    let served = reading.into_iter().flat_map(GatewayReading::served);
    let is_http =
        |listener: &Listener| listener.entry.protocol.data_plane_protocol().is_some_and(|it| it.is_http());
    served.map(|it| (it.table.clone(), it.entry.host.clone(), is_http(it))).collect()
}
