//! Ticket groups: sessions only resume under the client rules they started with.

use aws_lc_rs::digest::{Context, SHA256};
use fairway_model::{ClientCertificateMode, ClientVerification};

/// A digest of the client rules of a session. It is part of the key of its tickets, so that a ticket of one
/// group is noise in any other, on every replica, even after the rules of its host have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TicketGroup([u8; 32]);

impl TicketGroup {
    /// Clients without client authentication.
    pub(crate) const NO_CLIENT_AUTH: Self = Self([0; 32]);

    /// Clients authenticated by these rules.
    pub(crate) fn client_auth(rules: &ClientVerification) -> Self {
        let mut digest = Context::new(&SHA256);
        for text in [&rules.roots, &rules.revoked] {
            digest.update(&(text.len() as u64).to_be_bytes());
            digest.update(text.as_bytes());
        }
        // 256 is not a valid depth.
        digest.update(&rules.depth.map_or(256, u16::from).to_be_bytes());
        digest.update(&[match rules.demand {
            ClientCertificateMode::Required => 0,
            ClientCertificateMode::Optional => 1,
            ClientCertificateMode::Unverified => 2,
        }]);
        let mut group = [0; 32];
        group.copy_from_slice(digest.finish().as_ref());
        Self(group)
    }

    /// Logins of a host: distinct from tickets and from logins of another host, object or purpose.
    pub(crate) fn login(purpose: &str, identity: &[u8], host: &str) -> Self {
        Self::labelled(b"fairway login v1", &[purpose.as_bytes(), identity, host.as_bytes()])
    }

    /// Messages about shares of limits: requests to the replica `lender`, or its replies.
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
            demand: ClientCertificateMode::Required,
        };
        let others = [
            ClientVerification { roots: "a".into(), revoked: "bc".into(), ..rules.clone() },
            ClientVerification { roots: "abc".into(), revoked: "".into(), ..rules.clone() },
            ClientVerification { depth: Some(0), ..rules.clone() },
            ClientVerification { depth: Some(1), ..rules.clone() },
            ClientVerification { demand: ClientCertificateMode::Optional, ..rules.clone() },
            ClientVerification { demand: ClientCertificateMode::Unverified, ..rules.clone() },
        ];
        let mut all = vec![TicketGroup::NO_CLIENT_AUTH, TicketGroup::client_auth(&rules)];
        all.extend(others.iter().map(TicketGroup::client_auth));
        for (at, group) in all.iter().enumerate() {
            assert!(!all[..at].contains(group), "{at}");
        }
        assert_eq!(TicketGroup::client_auth(&rules), TicketGroup::client_auth(&rules.clone()));
    }
}
