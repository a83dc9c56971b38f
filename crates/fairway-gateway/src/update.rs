//! Updates the translation at a cost proportional to the change. Defines the order of the stages.
//!
//! A change marks what it affects (`work`). Then classes, Gateways with their ListenerSets, policies, placements and
//! routes are rebuilt where marked, each marking its dependents; finally hosts, which may reject rules for their
//! cost, and statuses.

use fairway_objects::inputs::Inputs;
use fairway_objects::object::ObjectKey;

use crate::listener::{CertificateState, Context};
use crate::state::Gateways;
use crate::translation::{ConfigChanges, GatewayTranslation};
use crate::work::Work;

impl Gateways {
    /// Rebuilds everything that is marked; `certificates` looks up the state of the certificate in a used Secret.
    pub fn update(
        &mut self,
        inputs: Inputs<'_>,
        mut work: Work,
        certificates: &dyn Fn(&ObjectKey) -> CertificateState,
    ) -> ConfigChanges {
        let context = Context { inputs, certificates };
        self.read_classes(inputs, &mut work);
        self.read_gateways(context, &mut work);
        self.read_policies(inputs, &mut work);
        self.read_own_policies(inputs, &mut work);
        // ClientTrafficPolicies decide which listeners can share the address of Ingresses.
        self.read_gateways(context, &mut work);
        self.place_gateways(inputs, &mut work);
        self.read_routes(inputs, &mut work);
        self.decide_contests(&mut work);
        self.contribute_routes(&mut work);
        self.make_hosts(&mut work);
        self.make_route_statuses(inputs, &mut work);
        self.make_statuses(inputs, &mut work);
        work.changes
    }

    /// The statuses to write and the needs of Gateways.
    #[must_use]
    pub fn translation(&self) -> &GatewayTranslation {
        &self.translation
    }
}
