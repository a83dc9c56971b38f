//! A deterministic automaton: one step for each byte of the text, and of known size.

use std::collections::HashMap;

use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::nfa::thompson::{Compiler, Config, NFA, State, WhichCaptures};
use regex_automata::util::primitives::StateID;
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::Hir;

use crate::cost::LONGEST_TEXT;
use crate::refusal::{Refusal, WORK};

/// Upper bound of an automaton without determinism, in bytes.
const PROGRAM_SIZE: usize = 256 * 1024;
/// Upper bound of a deterministic one, in bytes.
pub(crate) const AUTOMATON_SIZE: usize = 256 * 1024;

/// Tells whether the start of a text matches.
#[derive(Clone, Debug)]
pub(crate) struct Automaton {
    dfa: dense::DFA<Vec<u32>>,
    /// The most bytes that are read before the answer is known.
    pub(crate) reads: usize,
    /// The steps that building it took.
    pub(crate) work: u64,
}

impl Automaton {
    pub(crate) fn new(hir: &Hir) -> Result<Self, Refusal> {
        let nfa = nfa(hir, WhichCaptures::None)?;
        let work = Exploration::of(&nfa)?.work;
        let config = dense::Config::new()
            .start_kind(StartKind::Anchored)
            .match_kind(MatchKind::LeftmostFirst)
            .accelerate(false)
            .dfa_size_limit(Some(AUTOMATON_SIZE))
            .determinize_size_limit(Some(4 * AUTOMATON_SIZE));
        let dfa = dense::Builder::new().configure(config).build_from_nfa(&nfa).map_err(|_| too_large())?;
        let reads = reads(&dfa);
        Ok(Self { dfa, reads, work })
    }

    #[inline]
    pub(crate) fn holds(&self, text: &[u8]) -> bool {
        let input = Input::new(text).anchored(Anchored::Yes).earliest(true);
        // It has no byte on which it gives up.
        matches!(self.dfa.try_search_fwd(&input), Ok(Some(_)))
    }

    pub(crate) fn memory(&self) -> usize {
        self.dfa.memory_usage() + size_of::<Self>()
    }

    /// Whether no text has two starts that both match, so that what matches ends in one place; and the work of finding out.
    pub(crate) fn has_one_end(hir: &Hir) -> Result<(bool, u64), Refusal> {
        let nfa = nfa(hir, WhichCaptures::None)?;
        let work = Exploration::of(&nfa)?.work;
        let config = dense::Config::new()
            .start_kind(StartKind::Anchored)
            .match_kind(MatchKind::All)
            .dfa_size_limit(Some(AUTOMATON_SIZE))
            .determinize_size_limit(Some(4 * AUTOMATON_SIZE));
        let dfa = dense::Builder::new().configure(config).build_from_nfa(&nfa).map_err(|_| too_large())?;
        Ok((Graph::of(&dfa, false).has_one_end(&dfa), work))
    }
}

fn too_large() -> Refusal {
    Refusal::needs(format!("{} KiB as an automaton", AUTOMATON_SIZE / 1024))
}

/// An automaton without determinism.
pub(crate) fn nfa(hir: &Hir, captures: WhichCaptures) -> Result<NFA, Refusal> {
    let config = Config::new().utf8(false).which_captures(captures).nfa_size_limit(Some(PROGRAM_SIZE));
    Compiler::new()
        .configure(config)
        .build_from_hir(hir)
        .map_err(|_| Refusal::needs(format!("{} KiB when compiled", PROGRAM_SIZE / 1024)))
}

/// The sets of states in which an automaton without determinism can be at one time, as if every assertion held.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exploration {
    /// The states that a search of the longest text is in, summed over its bytes, at most.
    pub(crate) visits: u64,
    /// The steps that it took to find them all.
    pub(crate) work: u64,
}

impl Exploration {
    pub(crate) fn of(nfa: &NFA) -> Result<Self, Refusal> {
        let representatives: Vec<u8> =
            nfa.byte_classes().representatives(0..=255).filter_map(|unit| unit.as_u8()).collect();
        let mut closure = Closure { nfa, seen: vec![0; nfa.states().len()], round: 0, work: 0 };
        let first = closure.of([nfa.start_anchored()]);
        let mut numbers: HashMap<Vec<StateID>, usize> = [(first.clone(), 0)].into();
        let (mut sets, mut next) = (vec![first], Vec::new());
        while let Some(set) = sets.get(next.len()).cloned() {
            let mut after_it = Vec::new();
            for byte in &representatives {
                let after = closure.of(set.iter().filter_map(|state| after(nfa.state(*state), *byte)));
                // A transition of the finished automaton takes four bytes.
                let size = sets.len() * representatives.len() * 4;
                if closure.work > WORK || size > 4 * AUTOMATON_SIZE {
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
        let (lengths, is_passed) = longest_ways(&next);
        let passed =
            (0..sets.len()).filter(|set| is_passed[*set]).map(|set| sets[set].len() as u64).sum::<u64>();
        let stays = (0..sets.len()).filter(|set| !is_passed[*set]).map(|set| sets[set].len() as u64).max();
        let text = LONGEST_TEXT as u64;
        let widest = sets.iter().map(Vec::len).max().unwrap_or_default() as u64;
        let on_the_way = lengths.iter().max().map_or(0, |length| (*length as u64 + 1) * widest);
        Ok(Self { visits: passed.min(on_the_way) + stays.unwrap_or_default() * text, work: closure.work })
    }
}

/// Follows what takes no byte.
struct Closure<'n> {
    nfa: &'n NFA,
    /// The round in which a state was seen last.
    seen: Vec<u64>,
    round: u64,
    work: u64,
}

impl Closure<'_> {
    /// All states that can be reached without a byte, in order.
    fn of(&mut self, states: impl IntoIterator<Item = StateID>) -> Vec<StateID> {
        self.round += 1;
        self.work += 1;
        let mut waiting: Vec<StateID> = states.into_iter().collect();
        let mut all = Vec::new();
        while let Some(state) = waiting.pop() {
            self.work += 1;
            if std::mem::replace(&mut self.seen[state.as_usize()], self.round) == self.round {
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

fn after(state: &State, byte: u8) -> Option<StateID> {
    match state {
        State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
        State::Sparse(transitions) => transitions.matches_byte(byte),
        State::Dense(transitions) => transitions.matches_byte(byte),
        _ => None,
    }
}

/// The most bytes that a search reads before it knows.
fn reads(dfa: &dense::DFA<Vec<u32>>) -> usize {
    Graph::of(dfa, true).longest().map_or(LONGEST_TEXT, |longest| (longest + 1).min(LONGEST_TEXT))
}

/// The states of a deterministic automaton that can be reached, and what follows each.
struct Graph {
    states: Vec<StateID>,
    next: Vec<Vec<usize>>,
}

type Dfa = dense::DFA<Vec<u32>>;

/// The length of the longest way to each state of a graph, and whether every way passes it once at most. What a circle
/// leads to counts as part of it.
fn longest_ways(next: &[Vec<usize>]) -> (Vec<usize>, Vec<bool>) {
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
    /// With `until_match`, nothing follows a state in which the answer is known.
    fn of(dfa: &Dfa, until_match: bool) -> Self {
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

    /// The length of the longest way from the start; none where there is a way without end.
    fn longest(&self) -> Option<usize> {
        let (lengths, is_passed) = longest_ways(&self.next);
        is_passed.iter().all(|passed| *passed).then(|| lengths.into_iter().max().unwrap_or_default())
    }

    /// Whether no match follows a match. The automaton is in a state of a match one byte later, or at the end.
    fn has_one_end(&self, dfa: &Dfa) -> bool {
        let ends = |number: usize| dfa.is_match_state(dfa.next_eoi_state(self.states[number]));
        let matches = |number: usize| dfa.is_match_state(self.states[number]);
        let mut waiting: Vec<usize> = (0..self.states.len()).filter(|number| matches(*number)).collect();
        let mut seen = vec![false; self.states.len()];
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
                    if !std::mem::replace(&mut seen[*next], true) {
                        reached.push(*next);
                    }
                }
            }
            waiting.clone_from(&reached);
        }
        true
    }
}
