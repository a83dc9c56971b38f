//! The TLS handshakes of a block, and whether they are the ones every peer must do.

use fairway_lab_measure::results::Tls;
use fairway_lab_traffic::load::Outcome;

use crate::load::GROUP;

/// The handshakes of one block, or of several.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Handshakes {
    pub(crate) full: u64,
    pub(crate) resumed: u64,
    /// Session tickets received.
    pub(crate) tickets: u64,
    /// The properties of the first connection.
    pub(crate) negotiated: Tls,
}

impl Handshakes {
    /// `None` without TLS.
    pub(super) fn from_outcome(outcome: &Outcome) -> Option<Self> {
        let (counts, tls) = (&outcome.load.counts, outcome.load.tls.as_ref()?);
        let (full, resumed, tickets) = (counts.full_handshakes, counts.resumed_handshakes, counts.tickets);
        Some(Self { full, resumed, tickets, negotiated: tls.clone() })
    }

    /// Why a block with these handshakes is discarded, if all or none `are_to_resume` a session. Servers refuse a ticket
    /// occasionally: a tenth may be full where they should be resumed.
    pub(super) fn objection(&self, are_to_resume: bool) -> Option<String> {
        let all = self.full + self.resumed;
        if are_to_resume && self.full * 10 > all {
            return Some(format!("{} of {all} handshakes were full and should be resumed", self.full));
        }
        if !are_to_resume && self.resumed > 0 {
            return Some(format!("{} of {all} handshakes were resumed and should be full", self.resumed));
        }
        let group = self.negotiated.group.as_deref().unwrap_or("an unknown group");
        (group != GROUP).then(|| format!("keys were exchanged with {group} and not with {GROUP}"))
    }

    /// Session tickets per handshake.
    pub(crate) fn tickets_each(&self) -> f64 {
        self.tickets as f64 / (self.full + self.resumed).max(1) as f64
    }

    /// Adds the handshakes of another block of the same peer.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        self.full += other.full;
        self.resumed += other.resumed;
        self.tickets += other.tickets;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handshakes(resumed: u64, group: &str) -> Handshakes {
        let negotiated = Tls {
            version: "TLSv1.3".to_owned(),
            cipher: "TLS_AES_256_GCM_SHA384".to_owned(),
            key: None,
            protocol: "http/1.1".to_owned(),
            group: Some(group.to_owned()),
            signature: None,
        };
        Handshakes { full: 10 - resumed, resumed, tickets: 20, negotiated }
    }

    #[test]
    fn resumed_handshakes_and_another_group_are_objected_to() {
        let objection = |resumed, group, are_to_resume| handshakes(resumed, group).objection(are_to_resume);
        assert_eq!(objection(0, GROUP, false), None);
        assert_eq!(objection(9, GROUP, true), None);
        for (resumed, group, are_to_resume, part) in
            [(1, GROUP, false, "1 of 10"), (8, GROUP, true, "2 of 10"), (0, "secp256r1", false, "secp256r1")]
        {
            assert!(objection(resumed, group, are_to_resume).is_some_and(|why| why.contains(part)), "{part}");
        }
    }

    #[test]
    fn tickets_are_counted_per_handshake_over_all_blocks() {
        let both = handshakes(0, GROUP).and(&handshakes(5, GROUP));
        assert_eq!((both.full, both.resumed), (15, 5));
        assert!((both.tickets_each() - 2.0).abs() < 1e-9);
    }
}
