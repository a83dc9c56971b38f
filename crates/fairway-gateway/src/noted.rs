//! The objects as they were noted last, and whether a change of one is more than another status. Shares the maps of the
//! resources and copies no object; never decides what a change means.

use fairway_objects::custom_resource::CustomResource;
use fairway_objects::gateway_resources::{GatewayResources, Kept};
use fairway_objects::object::{ObjectRef, Sourced};
use fairway_objects::resources::Resources;
use fairway_objects::with_custom_resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The objects as they were noted last. A clone costs nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noted(GatewayResources);

impl Noted {
    /// Keeps the objects as they are now. The maps are persistent: nothing is copied, and replaced objects are freed.
    pub(crate) fn keep(&mut self, resources: &Resources) {
        self.0 = resources.gateway.clone();
    }

    /// Whether an object differs from the one that was kept in more than its status. Each status that this controller
    /// writes comes back as a change of the object, and must not cost what other changes cost.
    pub(crate) fn differs(&self, object: &ObjectRef, resources: &Resources) -> bool {
        let (before, now, key) = (&self.0, &resources.gateway, &object.key);
        with_custom_resource!(
            object.kind,
            K => !K::HAS_STATUS || is_other(K::all(before).get(key), K::all(now).get(key)),
            _ => true
        )
    }
}

fn is_other<T: CustomResource>(before: Option<&Sourced<T>>, now: Option<&Sourced<T>>) -> bool {
    let (Some(before), Some(now)) = (before, now) else { return true };
    let (old, new) = (&*before.object, &*now.object);
    before.source != now.source || !is_same(old.metadata(), new.metadata()) || old.spec() != new.spec()
}

/// Whether metadata are the same, apart from what the API server writes with each change. The uid tells an object from one
/// that was created in its place, even within the same second.
fn is_same(before: &ObjectMeta, now: &ObjectMeta) -> bool {
    before.uid == now.uid
        && before.creation_timestamp == now.creation_timestamp
        && before.labels == now.labels
        && before.annotations == now.annotations
}
