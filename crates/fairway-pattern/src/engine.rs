//! Where in a text the groups of a pattern match.

use std::cell::RefCell;

use regex_automata::dfa::onepass;
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::{Anchored, Input};
use regex_syntax::hir::Hir;

use crate::automaton::{Exploration, nfa};
use crate::cost::LONGEST_TEXT;
use crate::refusal::Refusal;

/// Upper bound of a one-pass automaton, in bytes.
const ONE_PASS_SIZE: usize = 128 * 1024;
/// What one byte costs, against that of a deterministic automaton: of a one-pass automaton, and of each state that the
/// general engine can be in.
const ONE_PASS_STEPS: u64 = 3;
const STATE_STEPS: u64 = 4;

/// Two for each group: where it begins and where it ends.
pub(crate) type Slots = [Option<NonMaxUsize>; 20];

/// Finds the groups of a pattern.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    how: How,
    /// The steps of a search, at most.
    pub(crate) steps: u64,
    pub(crate) work: u64,
}

#[derive(Clone, Debug)]
enum How {
    /// For patterns in which each byte tells what comes next.
    OnePass(Box<onepass::DFA>),
    Any(Box<PikeVM>),
}

thread_local! {
    /// What searches need to write on, for all patterns of a thread.
    static SCRATCH: RefCell<Option<Scratch>> = const { RefCell::new(None) };
}

struct Scratch {
    one_pass: Option<onepass::Cache>,
    any: Option<pikevm::Cache>,
}

impl Engine {
    /// For a pattern that holds itself to the start of the text.
    pub(crate) fn new(hir: &Hir) -> Result<Self, Refusal> {
        let nfa = nfa(hir, WhichCaptures::All)?;
        let Exploration { visits, work } = Exploration::of(&nfa)?;
        let text = LONGEST_TEXT as u64;
        let config = onepass::Config::new().size_limit(Some(ONE_PASS_SIZE));
        if let Ok(dfa) = onepass::Builder::new().configure(config).build_from_nfa(nfa.clone()) {
            return Ok(Self { how: How::OnePass(Box::new(dfa)), steps: text * ONE_PASS_STEPS, work });
        }
        let vm = PikeVM::builder().build_from_nfa(nfa).map_err(Refusal::because)?;
        Ok(Self { how: How::Any(Box::new(vm)), steps: (text + visits) * STATE_STEPS, work })
    }

    /// Nothing is allocated once a thread has searched for each pattern.
    pub(crate) fn find(&self, text: &[u8], slots: &mut Slots) -> bool {
        let input = Input::new(text).anchored(Anchored::Yes);
        SCRATCH.with_borrow_mut(|scratch| {
            let scratch = scratch.get_or_insert(Scratch { one_pass: None, any: None });
            match &self.how {
                How::OnePass(dfa) => {
                    let cache = scratch.one_pass.get_or_insert_with(|| dfa.create_cache());
                    cache.reset(dfa);
                    let length = slots.len().min(dfa.get_nfa().group_info().slot_len());
                    matches!(dfa.try_search_slots(cache, &input, &mut slots[..length]), Ok(Some(_)))
                }
                How::Any(vm) => {
                    let cache = scratch.any.get_or_insert_with(|| vm.create_cache());
                    cache.reset(vm);
                    let length = slots.len().min(vm.get_nfa().group_info().slot_len());
                    vm.search_slots(cache, &input, &mut slots[..length]).is_some()
                }
            }
        })
    }

    pub(crate) fn memory(&self) -> usize {
        match &self.how {
            How::OnePass(dfa) => dfa.memory_usage() + dfa.get_nfa().memory_usage(),
            How::Any(vm) => vm.get_nfa().memory_usage(),
        }
    }
}
