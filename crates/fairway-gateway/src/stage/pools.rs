//! Says what became of InferencePools: an entry for each Gateway whose routes send requests to a pool.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::gateway_api::ParentReference;
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::resources::Resources;

use crate::backend::{References, Speaks};
use crate::condition::{ACCEPTED, Condition, RESOLVED_REFS};
use crate::grant::{self, Referrer};
use crate::pool::{self, Pool};
use crate::state::{Gateways, Variant};
use crate::status::{GROUP, MOST_PARENTS, ObjectStatus, OwnStatus, ParentStatus};

impl Gateways {
    /// The status of a pool, and what is wrong with it. Nothing is said of one that no Gateway of this controller uses, unless it has
    /// an entry that must go.
    pub(crate) fn pool_status(
        &self,
        reference: &ObjectRef,
        inputs: Inputs<'_>,
    ) -> (Option<ObjectStatus>, Vec<Diagnostic>) {
        let key = &reference.key;
        let Some(object) = inputs.resources.gateway.pools.get(key) else { return (None, Vec::new()) };
        let gateways: BTreeSet<&ObjectKey> = self.gateways_of_pool(key, inputs.resources).collect();
        let before = object.object.status.iter().flat_map(|status| &status.parents);
        let mut own = before.filter(|it| it.controller_name == *self.controller);
        if gateways.is_empty() && own.next().is_none() {
            return (None, Vec::new());
        }
        let variant = Variant::default();
        let pool = self.with_resolver(reference, Speaks::Http, &variant, inputs, |resolver| {
            pool::read(key, &object.object.spec, resolver, &mut References::default())
        });
        let entries = gateways.iter().take(MOST_PARENTS).map(|gateway| entry(gateway, &pool)).collect();
        let status = ObjectStatus::new(&object.object.metadata, &self.controller, OwnStatus::Route(entries));
        let place = |field: &str| object.origin(Kind::InferencePool, key, field);
        let found = match gateways.is_empty() {
            true => Vec::new(),
            false => diagnostics(&pool, place),
        };
        (Some(status), found)
    }

    /// The Gateways whose routes name a pool, and may.
    fn gateways_of_pool<'a>(
        &'a self,
        pool: &'a ObjectKey,
        resources: &'a Resources,
    ) -> impl Iterator<Item = &'a ObjectKey> {
        let is_permitted = |route: &&ObjectRef| {
            let from = Referrer { kind: route.kind, namespace: &route.key.namespace };
            grant::permits(resources, from, Kind::InferencePool, pool)
        };
        let routes = self.routes.by_pool.of(pool).filter(is_permitted);
        let memos = routes.filter_map(|route| self.routes.by_key.get(route));
        memos.flat_map(|memo| memo.attached()).map(|it| &it.gateway)
    }
}

fn entry(gateway: &ObjectKey, pool: &Pool) -> ParentStatus {
    ParentStatus {
        parent: Arc::new(ParentReference {
            group: Some(GROUP.to_owned()),
            kind: Some("Gateway".to_owned()),
            namespace: Some(gateway.namespace.to_string()),
            name: gateway.name.to_string(),
            ..ParentReference::default()
        }),
        conditions: vec![
            Condition::of(
                ACCEPTED,
                pool.invalid.as_ref(),
                "Accepted",
                "it is a backend of routes of the Gateway",
            ),
            Condition::of(
                RESOLVED_REFS,
                pool.picker.as_ref().err(),
                "ResolvedRefs",
                "all that it refers to is there",
            ),
        ],
    }
}

fn diagnostics(pool: &Pool, place: impl Fn(&str) -> fairway_model::Origin) -> Vec<Diagnostic> {
    let error = |code, field| Diagnostic::new(Severity::Error, code, place(field));
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
