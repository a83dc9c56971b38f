//! Chooses which stream sends DATA next (RFC 9218 §10): sixteen lists of slots, two for each urgency.
//!
//! The most urgent streams go first. Among them, non-incremental ones are sent one after the other, since a part of
//! them is of no use, and incremental ones take turns. One choice in [`CHOICES_PER_LESS_URGENT`] goes to less urgent streams, so that
//! none waits for ever. Every operation takes constant time.

use crate::priority::Priority;

/// One choice in this many goes to less urgent streams: "servers can ... allocate some bandwidth to lower-urgency" (RFC
/// 9218 §10).
const CHOICES_PER_LESS_URGENT: u8 = 16;

/// A stream's turn to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendTurn {
    /// The stream.
    pub stream: u32,
    /// Body bytes it may send before the next stream's turn.
    pub bytes: usize,
    /// Bytes that all streams may send now.
    pub room: usize,
    /// Whether no other stream waits.
    pub is_alone: bool,
}

/// No slot, or no list.
const NONE: u16 = u16::MAX;

/// The list node of a slot.
#[derive(Debug, Clone, Copy)]
struct Link {
    list: u16,
    previous: u16,
    next: u16,
}

const FREE: Link = Link { list: NONE, previous: NONE, next: NONE };

/// The first and the last slot of a list.
#[derive(Debug, Clone, Copy)]
struct Ends {
    first: u16,
    last: u16,
}

/// The slots waiting for their turn.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// By urgency; non-incremental ones first.
    lists: [Ends; 16],
    /// A bit for each non-empty list.
    occupied: u16,
    links: Vec<Link>,
    choice_count: u8,
    /// The less urgent list that was chosen last.
    last_less_urgent: u8,
}

impl Default for Schedule {
    fn default() -> Self {
        let lists = [Ends { first: NONE, last: NONE }; 16];
        Schedule { lists, occupied: 0, links: Vec::new(), choice_count: 0, last_less_urgent: 0 }
    }
}

impl Schedule {
    /// Adds a slot. A stream that has begun goes before other non-incremental ones.
    pub(crate) fn enqueue(&mut self, slot: u16, priority: Priority, started: bool) {
        if self.links.len() <= usize::from(slot) {
            self.links.resize(usize::from(slot) + 1, FREE);
        }
        let list = u16::from(priority.urgency.min(7)) * 2 + u16::from(priority.incremental);
        if self.links[usize::from(slot)].list == list {
            return;
        }
        self.dequeue(slot);
        let ends = self.lists[usize::from(list)];
        let (previous, next) =
            if started && !priority.incremental { (NONE, ends.first) } else { (ends.last, NONE) };
        self.links[usize::from(slot)] = Link { list, previous, next };
        self.link(list, previous, slot);
        self.link(list, slot, next);
        self.occupied |= 1 << list;
    }

    /// Removes a slot.
    pub(crate) fn dequeue(&mut self, slot: u16) {
        let Some(link) = self.links.get_mut(usize::from(slot)) else { return };
        let Link { list, previous, next } = std::mem::replace(link, FREE);
        if list == NONE {
            return;
        }
        self.link(list, previous, next);
        if self.lists[usize::from(list)].first == NONE {
            self.occupied &= !(1 << list);
        }
    }

    /// Links two neighbours of a list; [`NONE`] is its end.
    fn link(&mut self, list: u16, before: u16, after: u16) {
        match before {
            NONE => self.lists[usize::from(list)].first = after,
            slot => self.links[usize::from(slot)].next = after,
        }
        match after {
            NONE => self.lists[usize::from(list)].last = before,
            slot => self.links[usize::from(slot)].previous = before,
        }
    }

    /// Whether a slot waits.
    #[cfg(test)]
    pub(crate) fn contains(&self, slot: u16) -> bool {
        self.links.get(usize::from(slot)).is_some_and(|link| link.list != NONE)
    }

    /// Whether no slot waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// Whether exactly one slot waits.
    pub(crate) fn is_single(&self) -> bool {
        let list = self.lists[(self.occupied.trailing_zeros() & 15) as usize];
        self.occupied.is_power_of_two() && list.first == list.last
    }

    /// Chooses the next slot. An incremental one moves to the end of its list.
    pub(crate) fn next_slot(&mut self) -> Option<u16> {
        if self.occupied == 0 {
            return None;
        }
        self.choice_count = self.choice_count.wrapping_add(1);
        let list = self.next_list();
        let Ends { first, last } = self.lists[usize::from(list)];
        if list & 1 == 1 && first != last {
            let next = self.links[usize::from(first)].next;
            self.link(list, NONE, next);
            self.links[usize::from(first)].next = NONE;
            self.link(list, last, first);
            self.lists[usize::from(list)].last = first;
        }
        Some(first)
    }

    /// The list to choose from. Both lists of an urgency take turns.
    fn next_list(&mut self) -> u16 {
        let urgency = self.occupied.trailing_zeros() & 14;
        let most_urgent = self.occupied & (3 << urgency);
        let lesser = self.occupied & !most_urgent;
        if lesser != 0 && self.choice_count.is_multiple_of(CHOICES_PER_LESS_URGENT) {
            let later = lesser & (!1u16).checked_shl(u32::from(self.last_less_urgent)).unwrap_or(0);
            let list = if later == 0 { lesser.trailing_zeros() } else { later.trailing_zeros() };
            self.last_less_urgent = list as u8;
            return list as u16;
        }
        let incremental =
            most_urgent == 3 << urgency && self.choice_count & 1 == 1 || most_urgent == 2 << urgency;
        urgency as u16 + u16::from(incremental)
    }

    /// Releases memory if no slot waits.
    pub(crate) fn release_memory(&mut self) {
        if self.is_empty() {
            self.links = Vec::new();
        }
    }

    pub(crate) fn kept_bytes(&self) -> usize {
        self.links.capacity() * size_of::<Link>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn priority(urgency: u8, incremental: bool) -> Priority {
        Priority { urgency, incremental }
    }

    fn choices<const N: usize>(schedule: &mut Schedule) -> [u16; N] {
        std::array::from_fn(|_| schedule.next_slot().expect("some slots wait"))
    }

    #[test]
    fn rfc9218_10_the_most_urgent_are_sent_first_and_non_incremental_ones_in_order() {
        let mut schedule = Schedule::default();
        for (slot, urgency) in [(0, 5), (1, 3), (2, 3), (3, 1)] {
            schedule.enqueue(slot, priority(urgency, false), false);
        }
        assert_eq!(choices(&mut schedule), [3, 3, 3]);
        schedule.dequeue(3);
        assert_eq!(choices(&mut schedule), [1, 1]);
        schedule.dequeue(1);
        assert_eq!(choices(&mut schedule), [2]);
        schedule.enqueue(1, priority(3, false), true);
        assert_eq!(choices(&mut schedule), [1], "it had begun before the other");
        schedule.dequeue(1);
        schedule.dequeue(2);
        assert!(!schedule.is_empty() && schedule.is_single());
        assert_eq!(choices(&mut schedule), [0]);
        schedule.dequeue(0);
        assert_eq!((schedule.next_slot(), schedule.is_empty()), (None, true));
    }

    #[test]
    fn rfc9218_10_incremental_streams_alternate() {
        let mut schedule = Schedule::default();
        (0..3).for_each(|slot| schedule.enqueue(slot, priority(3, true), false));
        assert_eq!(choices(&mut schedule), [0, 1, 2, 0, 1]);
        schedule.dequeue(2);
        assert_eq!(choices(&mut schedule), [0, 1]);
        schedule.enqueue(7, priority(3, false), false);
        let mixed: [u16; 4] = choices(&mut schedule);
        assert_eq!(mixed.iter().filter(|slot| **slot == 7).count(), 2, "{mixed:?}");
    }

    #[test]
    fn the_less_urgent_get_one_choice_in_sixteen_in_turn() {
        let mut schedule = Schedule::default();
        for (slot, urgency) in [(0, 0), (1, 4), (2, 7)] {
            schedule.enqueue(slot, priority(urgency, false), false);
        }
        let mut count = [0; 3];
        choices::<128>(&mut schedule).iter().for_each(|slot| count[usize::from(*slot)] += 1);
        assert_eq!(count, [120, 4, 4]);
    }

    #[test]
    fn a_slot_can_change_its_priority() {
        let mut schedule = Schedule::default();
        schedule.enqueue(0, priority(3, false), false);
        schedule.enqueue(1, priority(3, false), false);
        schedule.enqueue(1, priority(0, true), false);
        assert_eq!(choices(&mut schedule), [1, 1]);
        schedule.dequeue(1);
        assert!(schedule.contains(0) && !schedule.contains(1));
    }

    proptest! {
        #[test]
        fn it_chooses_only_who_waits_and_whoever_waits_is_chosen(
            steps in prop::collection::vec((0..20u16, 0..8u8, any::<bool>(), any::<bool>(), 0..4u8), 0..300),
        ) {
            let mut schedule = Schedule::default();
            let mut waiting = std::collections::BTreeMap::new();
            for (slot, urgency, incremental, begun, step) in steps {
                match step {
                    0 => {
                        schedule.dequeue(slot);
                        waiting.remove(&slot);
                    }
                    1 => {
                        let next_slot = schedule.next_slot();
                        prop_assert_eq!(next_slot.is_none(), waiting.is_empty());
                        prop_assert!(next_slot.is_none_or(|slot| waiting.contains_key(&slot)));
                    }
                    _ => {
                        schedule.enqueue(slot, priority(urgency, incremental), begun);
                        waiting.insert(slot, urgency);
                    }
                }
                prop_assert_eq!(schedule.is_single(), waiting.len() == 1);
                for slot in 0..20 {
                    prop_assert_eq!(schedule.contains(slot), waiting.contains_key(&slot));
                }
            }
            while let Some(slot) = schedule.next_slot() {
                prop_assert!(waiting.remove(&slot).is_some());
                schedule.dequeue(slot);
            }
            prop_assert!(waiting.is_empty());
        }
    }
}
