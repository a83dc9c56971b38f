//! Finds the capture groups of a match.

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

/// Size limit of a one-pass automaton, in bytes.
const MAX_ONE_PASS_BYTES: usize = 128 * 1024;
/// Cost of a byte relative to a DFA: for a one-pass automaton, and per active state of the general engine.
const ONE_PASS_STEPS: u64 = 3;
const STATE_STEPS: u64 = 4;

/// Start and end of each group.
pub(crate) type Slots = [Option<NonMaxUsize>; 20];

/// Finds the groups of a pattern.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    kind: EngineKind,
    /// Maximum steps of a search.
    pub(crate) steps: u64,
    pub(crate) work: u64,
}

#[derive(Clone, Debug)]
enum EngineKind {
    /// For patterns in which each byte determines the next state.
    OnePass(Box<onepass::DFA>),
    Any(Box<PikeVM>),
}

thread_local! {
    /// Working memory of searches, shared by all patterns of a thread.
    static SCRATCH: RefCell<Option<Scratch>> = const { RefCell::new(None) };
}

struct Scratch {
    one_pass: Option<onepass::Cache>,
    any_position: Option<pikevm::Cache>,
}

impl Engine {
    /// For a pattern that is anchored at the start of the text.
    pub(crate) fn new(hir: &Hir) -> Result<Self, Refusal> {
        let nfa = nfa(hir, WhichCaptures::All)?;
        let Exploration { visits, work } = Exploration::explore(&nfa)?;
        let text = LONGEST_TEXT as u64;
        let config = onepass::Config::new().size_limit(Some(MAX_ONE_PASS_BYTES));
        if let Ok(dfa) = onepass::Builder::new().configure(config).build_from_nfa(nfa.clone()) {
            return Ok(Self { kind: EngineKind::OnePass(Box::new(dfa)), steps: text * ONE_PASS_STEPS, work });
        }
        let vm = PikeVM::builder().build_from_nfa(nfa).map_err(Refusal::because)?;
        Ok(Self { kind: EngineKind::Any(Box::new(vm)), steps: (text + visits) * STATE_STEPS, work })
    }

    /// Allocates nothing once a thread has searched for each pattern.
    pub(crate) fn find(&self, text: &[u8], slots: &mut Slots) -> bool {
        let input = Input::new(text).anchored(Anchored::Yes);
        SCRATCH.with_borrow_mut(|scratch| {
            let scratch = scratch.get_or_insert(Scratch { one_pass: None, any_position: None });
            match &self.kind {
                EngineKind::OnePass(dfa) => {
                    let cache = scratch.one_pass.get_or_insert_with(|| dfa.create_cache());
                    cache.reset(dfa);
                    let length = slots.len().min(dfa.get_nfa().group_info().slot_len());
                    matches!(dfa.try_search_slots(cache, &input, &mut slots[..length]), Ok(Some(_)))
                }
                EngineKind::Any(vm) => {
                    let cache = scratch.any_position.get_or_insert_with(|| vm.create_cache());
                    cache.reset(vm);
                    let length = slots.len().min(vm.get_nfa().group_info().slot_len());
                    vm.search_slots(cache, &input, &mut slots[..length]).is_some()
                }
            }
        })
    }

    pub(crate) fn memory(&self) -> usize {
        match &self.kind {
            EngineKind::OnePass(dfa) => dfa.memory_usage() + dfa.get_nfa().memory_usage(),
            EngineKind::Any(vm) => vm.get_nfa().memory_usage(),
        }
    }
}
