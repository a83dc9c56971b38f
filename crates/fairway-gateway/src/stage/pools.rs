//! Statuses of InferencePools, with an entry for each Gateway whose routes use the pool.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::gateway_api::ParentReference;
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::resources::Resources;

use crate::backend::{ResolvedReferences, RouteProtocol};
use crate::condition::{ACCEPTED, Condition, RESOLVED_REFS};
use crate::grant::{self, Referrer};
use crate::pool::{self, Pool};
use crate::state::{Gateways, Variant};
use crate::status::{GATEWAY_GROUP, MAX_PARENTS, ObjectStatus, OwnStatus, ParentStatus};

impl Gateways {
    /// The status and diagnostics of a pool. A pool that no Gateway of this controller uses gets none, unless an old
    /// entry must be removed.
    pub(crate) fn pool_status(
        &self,
        reference: &ObjectRef,
        inputs: Inputs<'_>,
    ) -> (Option<ObjectStatus>, Vec<Diagnostic>) {
        let key = &reference.key;
        let Some(object) = inputs.resources.gateway.pools.get(key) else { return (None, Vec::new()) };
        let gateways: BTreeSet<&ObjectKey> = self.gateways_of_pool(key, inputs.resources).collect();
        let before = object.object.status.iter().flat_map(|status| &status.parents);
        let mut own_entries = before.filter(|it| it.controller_name == *self.controller);
        if gateways.is_empty() && own_entries.next().is_none() {
            return (None, Vec::new());
        }
        let variant = Variant::default();
        let pool = self.with_resolver(reference, RouteProtocol::Http, &variant, inputs, |resolver| {
            pool::read(key, &object.object.spec, resolver, &mut ResolvedReferences::default())
        });
        let entries = gateways.iter().take(MAX_PARENTS).map(|gateway| pool_entry(gateway, &pool)).collect();
        let status = ObjectStatus::new(&object.object.metadata, &self.controller, OwnStatus::Route(entries));
        let origin_of = |field: &str| object.origin(Kind::InferencePool, key, field);
        let found = match gateways.is_empty() {
            true => Vec::new(),
            false => diagnostics(&pool, origin_of),
        };
        (Some(status), found)
    }

    /// The Gateways whose routes reference a pool with permission.
    fn gateways_of_pool<'a>(
        &'a self,
        pool: &'a ObjectKey,
        resources: &'a Resources,
    ) -> impl Iterator<Item = &'a ObjectKey> {
        let is_permitted = |route: &&ObjectRef| {
            let from = Referrer { kind: route.kind, namespace: &route.key.namespace };
            grant::permits(resources, from, Kind::InferencePool, pool)
        };
        let routes = self.routes.by_pool.users_of(pool).filter(is_permitted);
        let memos = routes.filter_map(|route| self.routes.by_key.get(route));
        memos.flat_map(|memo| memo.attachments()).map(|it| &it.gateway)
    }
}

fn pool_entry(gateway: &ObjectKey, pool: &Pool) -> ParentStatus {
    ParentStatus {
        parent: Arc::new(ParentReference {
            group: Some(GATEWAY_GROUP.to_owned()),
            kind: Some("Gateway".to_owned()),
            namespace: Some(gateway.namespace.to_string()),
            name: gateway.name.to_string(),
            ..ParentReference::default()
        }),
        conditions: vec![
            Condition::true_unless(
                ACCEPTED,
                pool.invalid.as_ref(),
                "Accepted",
                "it is a backend of routes of the Gateway",
            ),
            Condition::true_unless(
                RESOLVED_REFS,
                pool.picker.as_ref().err(),
                "ResolvedRefs",
                "all that it refers to is there",
            ),
        ],
    }
}

fn diagnostics(pool: &Pool, origin_of: impl Fn(&str) -> fairway_model::Origin) -> Vec<Diagnostic> {
    let error = |code, field| Diagnostic::new(Severity::Error, code, origin_of(field));
    let invalid = pool.invalid.as_ref().map(|fault| {
        error("invalid-pool", "spec").because(fault.message.clone(), "its requests are answered 500")
    });
    let picker = pool.picker.as_ref().err().map(|fault| {
        let consequence = match pool.fails_open {
            true => "endpoints are chosen without it, as failureMode says",
            false => "its requests are answered 500",
        };
        error("no-endpoint-picker", "spec.endpointPickerRef").because(fault.message.clone(), consequence)
    });
    invalid.into_iter().chain(picker).collect()
}
