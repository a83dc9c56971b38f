//! A snapshot of the objects, to detect whether more than a status changed. Shares the maps of the resources and
//! copies no object.

use fairway_objects::custom_resource::CustomResource;
use fairway_objects::gateway_resources::{GatewayResources, Kept};
use fairway_objects::object::{ObjectRef, Sourced};
use fairway_objects::resources::Resources;
use fairway_objects::with_custom_resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The objects of the last update. Cloning is free.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectSnapshot(GatewayResources);

impl ObjectSnapshot {
    /// Stores the current objects. The maps are persistent: nothing is copied, and replaced objects are freed.
    pub(crate) fn store(&mut self, resources: &Resources) {
        self.0 = resources.gateway.clone();
    }

    /// Whether an object differs from its snapshot in more than its status. Statuses that this controller writes come
    /// back as object changes, and must be cheap.
    pub(crate) fn differs(&self, object: &ObjectRef, resources: &Resources) -> bool {
        let (before, now, key) = (&self.0, &resources.gateway, &object.key);
        with_custom_resource!(
            object.kind,
            K => !K::HAS_STATUS || differs_beyond_status(K::all(before).get(key), K::all(now).get(key)),
            _ => true
        )
    }
}

fn differs_beyond_status<T: CustomResource>(before: Option<&Sourced<T>>, now: Option<&Sourced<T>>) -> bool {
    let (Some(before), Some(now)) = (before, now) else { return true };
    let (old, new) = (&*before.object, &*now.object);
    before.source != now.source
        || !is_same_metadata(old.metadata(), new.metadata())
        || old.spec() != new.spec()
}

/// Whether metadata is equal, except for fields that the API server changes with every update. The uid distinguishes
/// an object from one recreated with the same name, even within the same second.
fn is_same_metadata(before: &ObjectMeta, now: &ObjectMeta) -> bool {
    before.uid == now.uid
        && before.creation_timestamp == now.creation_timestamp
        && before.labels == now.labels
        && before.annotations == now.annotations
}
