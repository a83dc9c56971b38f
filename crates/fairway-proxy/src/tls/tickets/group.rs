//! Which sessions may be resumed with which settings: only those that began under the same rules for client certificates.

use aws_lc_rs::digest::{Context, SHA256};
use fairway_model::{ClientDemand, ClientVerification};

/// A digest of the rules for client certificates that a session began under. Part of the key of its tickets, so that a ticket
/// of one group is noise in any other, on every replica, and also once the rules of its host have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group([u8; 32]);

impl Group {
    /// Clients that were not asked for a certificate.
    pub(crate) const UNASKED: Self = Self([0; 32]);

    /// Clients that were asked by these rules.
    pub(crate) fn asked(rules: &ClientVerification) -> Self {
        let mut digest = Context::new(&SHA256);
        for text in [&rules.roots, &rules.revoked] {
            digest.update(&(text.len() as u64).to_be_bytes());
            digest.update(text.as_bytes());
        }
        // 256 is no depth that rules can have.
        digest.update(&rules.depth.map_or(256, u16::from).to_be_bytes());
        digest.update(&[match rules.demand {
            ClientDemand::Required => 0,
            ClientDemand::Optional => 1,
            ClientDemand::Unverified => 2,
        }]);
        let mut group = [0; 32];
        group.copy_from_slice(digest.finish().as_ref());
        Self(group)
    }

    /// Logins of a host: no ticket is one, and no login of another host, object or purpose.
    pub(crate) fn login(purpose: &str, identity: &[u8], host: &str) -> Self {
        Self::labelled(b"fairway login v1", &[purpose.as_bytes(), identity, host.as_bytes()])
    }

    /// Messages about shares of limits: asks for the replica `lender`, or its answers.
    pub(crate) fn lease(purpose: &str, lender: &str) -> Self {
        Self::labelled(b"fairway lease v1", &[purpose.as_bytes(), lender.as_bytes()])
    }

    fn labelled(label: &[u8], parts: &[&[u8]]) -> Self {
        let mut digest = Context::new(&SHA256);
        digest.update(label);
        for part in parts {
            digest.update(&(part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        let mut group = [0; 32];
        group.copy_from_slice(digest.finish().as_ref());
        Self(group)
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_rules_counts() {
        let rules = ClientVerification {
            roots: "ab".into(),
            revoked: "c".into(),
            depth: None,
            demand: ClientDemand::Required,
        };
        let others = [
            ClientVerification { roots: "a".into(), revoked: "bc".into(), ..rules.clone() },
            ClientVerification { roots: "abc".into(), revoked: "".into(), ..rules.clone() },
            ClientVerification { depth: Some(0), ..rules.clone() },
            ClientVerification { depth: Some(1), ..rules.clone() },
            ClientVerification { demand: ClientDemand::Optional, ..rules.clone() },
            ClientVerification { demand: ClientDemand::Unverified, ..rules.clone() },
        ];
        let mut all = vec![Group::UNASKED, Group::asked(&rules)];
        all.extend(others.iter().map(Group::asked));
        for (at, group) in all.iter().enumerate() {
            assert!(!all[..at].contains(group), "{at}");
        }
        assert_eq!(Group::asked(&rules), Group::asked(&rules.clone()));
    }
}
