//! Attempts on endpoints that an endpoint picker chose: one after the other, and no others of the group.

use std::net::SocketAddr;

use fairway_net::clock::Instant;

use super::{Group, TriedMembers};
use crate::sides::Hop;
use crate::upstream::endpoint::{PickReason, PickedEndpoint};

/// The members that were picked for a request, first choice first.
#[derive(Debug, Default)]
pub struct Picks(Box<[u16]>);

impl Picks {
    /// The members with these addresses. Others are ignored: a picker cannot send requests elsewhere.
    pub fn from_addresses<H>(group: &Group<H>, addresses: &[SocketAddr]) -> Self {
        let index = |address: &SocketAddr| {
            let at = group.members.iter().position(|member| member.identity.address == *address)?;
            u16::try_from(at).ok()
        };
        Self(addresses.iter().filter_map(index).collect())
    }

    /// Whether no address belongs to a member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn members(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|index| usize::from(*index))
    }
}

impl<H: Hop> Group<H> {
    /// As [`Group::pick`], among the picks: the first untried healthy one; otherwise the first untried one; otherwise
    /// the first. Those at their limit are skipped.
    pub fn pick_among(&self, picks: &Picks, tried: &TriedMembers, now: Instant) -> Option<PickedEndpoint<H>> {
        let index = self.candidates_among(picks, tried, now).find(|index| self.takes_more(*index))?;
        self.pick_member(index, now)
    }

    /// As [`Group::rival`], among the picks.
    pub fn rival_among(&self, picks: &Picks, tried: &TriedMembers) -> Option<PickedEndpoint<H>> {
        let untried = || picks.members().filter(|index| !tried.contains(*index));
        let is_good = |index: usize| self.members[index].health().is_healthy();
        let mut rivals = untried().filter(|index| self.takes_more(*index));
        let index = match untried().any(is_good) {
            true => rivals.find(|index| is_good(*index)),
            false => rivals.find(|index| !self.members[*index].health().is_suspect()),
        }?;
        self.pick_member_as(index, PickReason::Regular)
    }

    /// As [`Group::has_room`], among the picks.
    pub fn has_room_among(&self, picks: &Picks, tried: &TriedMembers) -> bool {
        self.candidates_among(picks, tried, Instant::now()).any(|index| self.takes_more(index))
    }

    /// As [`Group::has_untried`], among the picks.
    pub fn has_untried_among(&self, picks: &Picks, tried: &TriedMembers) -> bool {
        let mut candidates = self.candidates_among(picks, tried, Instant::now());
        candidates.any(|index| !tried.contains(index) && self.takes_more(index))
    }

    /// The candidates for an attempt, in the order of the picks.
    fn candidates_among(
        &self,
        picks: &Picks,
        tried: &TriedMembers,
        now: Instant,
    ) -> impl Iterator<Item = usize> {
        let untried = move |index: &usize| !tried.contains(*index);
        let is_any_untried = picks.members().any(|index| untried(&index));
        let is_any_usable = picks.members().filter(untried).any(|index| self.is_usable(index, now));
        picks.members().filter(move |index| match (is_any_usable, is_any_untried) {
            (true, _) => untried(index) && self.is_usable(*index, now),
            (false, true) => untried(index),
            (false, false) => true,
        })
    }
}
