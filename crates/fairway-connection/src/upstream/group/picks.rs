//! Attempts on endpoints that somebody else picked for a request: one after the other, and on no other endpoint of the group.

use std::net::SocketAddr;

use fairway_net::clock::Instant;

use super::{Group, Tried};
use crate::sides::Hop;
use crate::upstream::endpoint::{Chosen, Errand};

/// Members of a group that were picked for a request, the first choice first.
#[derive(Debug, Default)]
pub struct Picks(Box<[u16]>);

impl Picks {
    /// Those of the addresses that are members of the group. Others are left out: nobody may be sent elsewhere by a pick.
    pub fn of<H>(group: &Group<H>, addresses: &[SocketAddr]) -> Self {
        let index = |address: &SocketAddr| {
            let at = group.members.iter().position(|member| member.identity.address == *address)?;
            u16::try_from(at).ok()
        };
        Self(addresses.iter().filter_map(index).collect())
    }

    /// Whether no address is one of a member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn members(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|index| usize::from(*index))
    }
}

impl<H: Hop> Group<H> {
    /// As [`Group::pick`], among the picks: the first that was not tried and is healthy; else the first that was not tried; else,
    /// when all were tried, the first. Those that take no more are passed over.
    pub fn pick_among(&self, picks: &Picks, tried: &Tried, now: Instant) -> Option<Chosen<H>> {
        let index = self.left_among(picks, tried, now).find(|index| self.takes_more(*index))?;
        self.chosen(index, now)
    }

    /// As [`Group::rival`], among the picks.
    pub fn rival_among(&self, picks: &Picks, tried: &Tried) -> Option<Chosen<H>> {
        let untried = || picks.members().filter(|index| !tried.contains(*index));
        let is_good = |index: usize| self.members[index].health().is_good();
        let mut rivals = untried().filter(|index| self.takes_more(*index));
        let index = match untried().any(is_good) {
            true => rivals.find(|index| is_good(*index)),
            false => rivals.find(|index| !self.members[*index].health().is_suspect()),
        }?;
        self.chosen_for(index, Errand::Regular)
    }

    /// As [`Group::has_room`], among the picks.
    pub fn has_room_among(&self, picks: &Picks, tried: &Tried) -> bool {
        self.left_among(picks, tried, Instant::now()).any(|index| self.takes_more(index))
    }

    /// As [`Group::has_untried`], among the picks.
    pub fn has_untried_among(&self, picks: &Picks, tried: &Tried) -> bool {
        let mut left = self.left_among(picks, tried, Instant::now());
        left.any(|index| !tried.contains(index) && self.takes_more(index))
    }

    /// What is left for an attempt, in the order of the picks.
    fn left_among(&self, picks: &Picks, tried: &Tried, now: Instant) -> impl Iterator<Item = usize> {
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
