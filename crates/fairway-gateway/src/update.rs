//! Keeps the translation up to date at a cost of what changed. Owns the order of the stages; never reads the
//! meaning of an object itself.
//!
//! An edit marks what it touches (`work`); then classes, Gateways with their ListenerSets, policies, the places of
//! Gateways and routes are made again, each only where it was marked, and each marking what depends on it; at last the hosts,
//! which may be unable to afford a rule, and the statuses.

use fairway_objects::inputs::Inputs;
use fairway_objects::object::ObjectKey;

use crate::listener::{Certified, Context};
use crate::state::Gateways;
use crate::translation::{GatewayTranslation, Pieces};
use crate::work::Work;

impl Gateways {
    /// Makes all that is marked; `certificates` says what is known of the certificate in a Secret that something
    /// shows.
    pub fn update(
        &mut self,
        inputs: Inputs<'_>,
        mut work: Work,
        certificates: &dyn Fn(&ObjectKey) -> Certified,
    ) -> Pieces {
        let context = Context { inputs, certificates };
        self.read_classes(inputs, &mut work);
        self.read_gateways(context, &mut work);
        self.read_policies(inputs, &mut work);
        self.read_own_policies(inputs, &mut work);
        // Policies for clients decide which listeners can be at the address of Ingresses.
        self.read_gateways(context, &mut work);
        self.place_gateways(inputs, &mut work);
        self.read_routes(inputs, &mut work);
        self.decide_contests(&mut work);
        self.finish_routes(&mut work);
        self.make_hosts(&mut work);
        self.tell_routes(inputs, &mut work);
        self.make_statuses(inputs, &mut work);
        work.pieces
    }

    /// What is to be written, and what Gateways need.
    #[must_use]
    pub fn translation(&self) -> &GatewayTranslation {
        &self.translation
    }
}
