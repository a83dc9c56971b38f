//! Who may claim any address, and the Ingresses whose source ranges that makes worthless.

use imbl::OrdSet;

use super::Translator;
use super::work::{ClaimsWork, Work};
use crate::claim::Claim;
use crate::diagnostic::Scope;
use crate::resources::ObjectKey;

/// What is remembered of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    pub(super) made: Vec<Claim>,
    /// The Ingresses that check source ranges.
    guarded: OrdSet<ObjectKey>,
}

impl Claims {
    /// Whether an Ingress checks source ranges from now on; says whether that is new.
    pub(super) fn guard(&mut self, ingress: &ObjectKey, guarded: bool) -> bool {
        match guarded {
            true => self.guarded.insert(ingress.clone()).is_none(),
            false => self.guarded.remove(ingress).is_some(),
        }
    }
}

impl Translator {
    /// Says it again where it differs.
    pub(super) fn tell_claims(&mut self, work: &Work) {
        if work.claims == ClaimsWork::Rest {
            return;
        }
        let Claims { made, guarded } = &self.claims;
        let found = made.iter().map(|claim| claim.describe(guarded.iter())).collect();
        self.current.diagnostics.replace(Scope::Claims, found);
    }
}
