//! That every client may claim any address, said together with the Ingresses whose source ranges that makes worthless.

use super::Translator;
use super::work::{ClaimsWork, Work};
use crate::diagnostic::Scope;

impl Translator {
    /// Says it again where it differs.
    pub(super) fn tell_claims(&mut self, work: &Work) {
        if work.claims == ClaimsWork::Rest {
            return;
        }
        let guarded = &self.dependencies.guarded;
        let found = self.defaults.claims.iter().map(|claim| claim.describe(guarded.iter())).collect();
        self.current.diagnostics.replace(Scope::Claims, found);
    }
}
