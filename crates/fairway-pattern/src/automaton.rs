//! Deterministic automata of bounded size: one step per byte of text.

use std::collections::HashMap;

use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::nfa::thompson::{Compiler, Config, NFA, State, WhichCaptures};
use regex_automata::util::primitives::StateID;
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::Hir;

use crate::cost::LONGEST_TEXT;
use crate::refusal::{MAX_BUILD_WORK, Refusal};

/// Size limit of an NFA, in bytes.
const MAX_PROGRAM_BYTES: usize = 256 * 1024;
/// Size limit of a DFA, in bytes.
pub(crate) const MAX_AUTOMATON_BYTES: usize = 256 * 1024;

/// Decides whether the start of a text matches.
#[derive(Clone, Debug)]
pub(crate) struct Automaton {
    dfa: dense::DFA<Vec<u32>>,
    /// Maximum bytes read before the result is known.
    pub(crate) max_read: usize,
    /// Steps taken to build it.
    pub(crate) work: u64,
}

impl Automaton {
    pub(crate) fn new(hir: &Hir) -> Result<Self, Refusal> {
        let nfa = nfa(hir, WhichCaptures::None)?;
        let work = Exploration::explore(&nfa)?.work;
        let config = dense::Config::new()
            .start_kind(StartKind::Anchored)
            .match_kind(MatchKind::LeftmostFirst)
            .accelerate(false)
            .dfa_size_limit(Some(MAX_AUTOMATON_BYTES))
            .determinize_size_limit(Some(4 * MAX_AUTOMATON_BYTES));
        let dfa = dense::Builder::new().configure(config).build_from_nfa(&nfa).map_err(|_| too_large())?;
        let reads = max_bytes_read(&dfa);
        Ok(Self { dfa, max_read: reads, work })
    }

    #[inline]
    pub(crate) fn is_match(&self, text: &[u8]) -> bool {
        let input = Input::new(text).anchored(Anchored::Yes).earliest(true);
        // It has no quit bytes.
        matches!(self.dfa.try_search_fwd(&input), Ok(Some(_)))
    }

    pub(crate) fn memory(&self) -> usize {
        self.dfa.memory_usage() + size_of::<Self>()
    }

    /// Whether all matching prefixes of a text have the same length, so that a match has one end; and the work of
    /// determining this.
    pub(crate) fn has_one_end(hir: &Hir) -> Result<(bool, u64), Refusal> {
        let nfa = nfa(hir, WhichCaptures::None)?;
        let work = Exploration::explore(&nfa)?.work;
        let config = dense::Config::new()
            .start_kind(StartKind::Anchored)
            .match_kind(MatchKind::All)
            .dfa_size_limit(Some(MAX_AUTOMATON_BYTES))
            .determinize_size_limit(Some(4 * MAX_AUTOMATON_BYTES));
        let dfa = dense::Builder::new().configure(config).build_from_nfa(&nfa).map_err(|_| too_large())?;
        Ok((Graph::from_dfa(&dfa, false).has_one_end(&dfa), work))
    }
}

fn too_large() -> Refusal {
    Refusal::exceeds(format!("{} KiB as an automaton", MAX_AUTOMATON_BYTES / 1024))
}

/// Builds an NFA.
pub(crate) fn nfa(hir: &Hir, captures: WhichCaptures) -> Result<NFA, Refusal> {
    let config = Config::new().utf8(false).which_captures(captures).nfa_size_limit(Some(MAX_PROGRAM_BYTES));
    Compiler::new()
        .configure(config)
        .build_from_hir(hir)
        .map_err(|_| Refusal::exceeds(format!("{} KiB when compiled", MAX_PROGRAM_BYTES / 1024)))
}

/// The sets of states that an NFA can be in at one time, as if every assertion held.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exploration {
    /// Upper bound of the states visited by a search of the longest text, summed over its bytes.
    pub(crate) visits: u64,
    /// Steps taken to find them all.
    pub(crate) work: u64,
}

impl Exploration {
    pub(crate) fn explore(nfa: &NFA) -> Result<Self, Refusal> {
        let representatives: Vec<u8> =
            nfa.byte_classes().representatives(0..=255).filter_map(|unit| unit.as_u8()).collect();
        let mut closure = Closure { nfa, visited: vec![0; nfa.states().len()], round: 0, work: 0 };
        let first = closure.reachable_states([nfa.start_anchored()]);
        let mut numbers: HashMap<Vec<StateID>, usize> = [(first.clone(), 0)].into();
        let (mut sets, mut next) = (vec![first], Vec::new());
        while let Some(set) = sets.get(next.len()).cloned() {
            let mut after_it = Vec::new();
            for byte in &representatives {
                let after = closure
                    .reachable_states(set.iter().filter_map(|state| transition(nfa.state(*state), *byte)));
                // A transition of the finished DFA takes four bytes.
                let size = sets.len() * representatives.len() * 4;
                if closure.work > MAX_BUILD_WORK || size > 4 * MAX_AUTOMATON_BYTES {
                    return Err(too_large());
                }
                if after.is_empty() {
                    continue;
                }
                let number = *numbers.entry(after.clone()).or_insert(sets.len());
                if number == sets.len() {
                    sets.push(after);
                }
                after_it.push(number);
            }
            after_it.sort_unstable();
            after_it.dedup();
            next.push(after_it);
        }
        let (lengths, is_passed) = longest_paths(&next);
        let passed =
            (0..sets.len()).filter(|set| is_passed[*set]).map(|set| sets[set].len() as u64).sum::<u64>();
        let stays = (0..sets.len()).filter(|set| !is_passed[*set]).map(|set| sets[set].len() as u64).max();
        let text = LONGEST_TEXT as u64;
        let widest = sets.iter().map(Vec::len).max().unwrap_or_default() as u64;
        let on_the_way = lengths.iter().max().map_or(0, |length| (*length as u64 + 1) * widest);
        Ok(Self { visits: passed.min(on_the_way) + stays.unwrap_or_default() * text, work: closure.work })
    }
}

/// Computes epsilon closures.
struct Closure<'n> {
    nfa: &'n NFA,
    /// The round in which a state was last seen.
    visited: Vec<u64>,
    round: u64,
    work: u64,
}

impl Closure<'_> {
    /// All states reachable without a byte, sorted.
    fn reachable_states(&mut self, states: impl IntoIterator<Item = StateID>) -> Vec<StateID> {
        self.round += 1;
        self.work += 1;
        let mut waiting: Vec<StateID> = states.into_iter().collect();
        let mut all = Vec::new();
        while let Some(state) = waiting.pop() {
            self.work += 1;
            if std::mem::replace(&mut self.visited[state.as_usize()], self.round) == self.round {
                continue;
            }
            all.push(state);
            match self.nfa.state(state) {
                State::Look { next, .. } | State::Capture { next, .. } => waiting.push(*next),
                State::Union { alternates } => waiting.extend(alternates.iter()),
                State::BinaryUnion { alt1, alt2 } => waiting.extend([*alt1, *alt2]),
                State::ByteRange { .. }
                | State::Sparse(_)
                | State::Dense(_)
                | State::Fail
                | State::Match { .. } => {}
            }
        }
        all.sort_unstable();
        all
    }
}

fn transition(state: &State, byte: u8) -> Option<StateID> {
    match state {
        State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
        State::Sparse(transitions) => transitions.matches_byte(byte),
        State::Dense(transitions) => transitions.matches_byte(byte),
        _ => None,
    }
}

/// Maximum bytes read before a search is decided.
fn max_bytes_read(dfa: &dense::DFA<Vec<u32>>) -> usize {
    Graph::from_dfa(dfa, true).longest_path().map_or(LONGEST_TEXT, |longest| (longest + 1).min(LONGEST_TEXT))
}

/// The reachable states of a DFA and their successors.
struct Graph {
    states: Vec<StateID>,
    next: Vec<Vec<usize>>,
}

type Dfa = dense::DFA<Vec<u32>>;

/// The longest path to each state of a graph, and whether every path passes the state at most once. States reachable
/// from a cycle count as part of it.
fn longest_paths(next: &[Vec<usize>]) -> (Vec<usize>, Vec<bool>) {
    let mut before = vec![0usize; next.len()];
    next.iter().flatten().for_each(|next| before[*next] += 1);
    let (mut length, mut is_passed) = (vec![0usize; next.len()], vec![false; next.len()]);
    let mut ready: Vec<usize> = (0..next.len()).filter(|state| before[*state] == 0).collect();
    while let Some(state) = ready.pop() {
        is_passed[state] = true;
        for after in &next[state] {
            length[*after] = length[*after].max(length[state] + 1);
            before[*after] -= 1;
            if before[*after] == 0 {
                ready.push(*after);
            }
        }
    }
    (length, is_passed)
}

impl Graph {
    /// With `until_match`, states in which the result is known have no successors.
    fn from_dfa(dfa: &Dfa, until_match: bool) -> Self {
        let start = dfa.start_state_forward(&Input::new("").anchored(Anchored::Yes));
        let start = start.expect("a search at the start of a text is what it was built for");
        let representatives: Vec<_> =
            dfa.byte_classes().representatives(0..=255).filter_map(|it| it.as_u8()).collect();
        let mut graph = Self { states: vec![start], next: Vec::new() };
        let mut numbers: HashMap<StateID, usize> = [(start, 0)].into();
        while let Some(state) = graph.states.get(graph.next.len()).copied() {
            let mut next = Vec::new();
            if !(until_match && dfa.is_match_state(state)) {
                for byte in &representatives {
                    let after = dfa.next_state(state, *byte);
                    if dfa.is_dead_state(after) {
                        continue;
                    }
                    let number = *numbers.entry(after).or_insert(graph.states.len());
                    if number == graph.states.len() {
                        graph.states.push(after);
                    }
                    next.push(number);
                }
            }
            next.sort_unstable();
            next.dedup();
            graph.next.push(next);
        }
        graph
    }

    /// Length of the longest path from the start; `None` if there is an endless path.
    fn longest_path(&self) -> Option<usize> {
        let (lengths, is_passed) = longest_paths(&self.next);
        is_passed.iter().all(|passed| *passed).then(|| lengths.into_iter().max().unwrap_or_default())
    }

    /// Whether no match follows another match. The DFA enters a match state one byte late, or at the end.
    fn has_one_end(&self, dfa: &Dfa) -> bool {
        let ends = |number: usize| dfa.is_match_state(dfa.next_eoi_state(self.states[number]));
        let matches = |number: usize| dfa.is_match_state(self.states[number]);
        let mut waiting: Vec<usize> = (0..self.states.len()).filter(|number| matches(*number)).collect();
        let mut visited = vec![false; self.states.len()];
        let mut first = true;
        let mut reached = waiting.clone();
        while !waiting.is_empty() {
            if !first && reached.iter().any(|number| matches(*number))
                || reached.iter().any(|number| ends(*number))
            {
                return false;
            }
            first = false;
            reached = Vec::new();
            for number in std::mem::take(&mut waiting) {
                for next in &self.next[number] {
                    if !std::mem::replace(&mut visited[*next], true) {
                        reached.push(*next);
                    }
                }
            }
            waiting.clone_from(&reached);
        }
        true
    }
}
