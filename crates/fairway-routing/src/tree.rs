//! The paths of a host as a tree of path elements, so that the cost of a lookup depends on the elements of the
//! request's path and not on the number of routes: exact path, then regular expressions, then the longest prefix.
//!
//! A lookup descends as far as the tree goes and then climbs, which visits prefixes from the longest to the shortest.
//! The tree is immutable.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

use fairway_model::PathMatch;

use crate::candidate::{Candidate, PathCandidate, RankedMatch};
use crate::hash::FastHashState;
use crate::rare_list::RareList;
use crate::request::{Fields, Request};

/// The root of paths that start with a slash.
const SLASH: u32 = 0;
/// The root of all others: `*` and the empty path.
const OTHER: u32 = 1;
const NONE: u32 = u32::MAX;
/// Elements up to this length are compared inside the node.
const HEAD: usize = 15;
/// Up to this many nodes are searched linearly, which is faster than a hash and one cache miss less.
const FEW_NODES: usize = 10;

/// The candidates of a host by path. The fields that every lookup needs come first.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Tree {
    nodes: Box<[Node]>,
    /// Open addressing; a power of two, at most half full. Empty for few nodes.
    edges: Box<[Edge]>,
    hash: FastHashState,
    /// The elements of all nodes, concatenated.
    elements: Box<[u8]>,
    /// The lists of all nodes, concatenated.
    candidates: Box<[Candidate]>,
    /// The longest pattern first; those that come after prefixes are last.
    regexes: RareList<PathCandidate>,
}

/// The end of a path of elements. One cache line has all that most requests need.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Node {
    parent: u32,
    /// The next node towards the root that has a prefix.
    up: u32,
    /// The length of the path to here in bytes.
    length: u32,
    /// The start of its element in `elements`.
    element_start: u32,
    element_length: u32,
    /// The start of its element.
    head: [u8; HEAD],
    /// Whether it has children: otherwise none need be looked up.
    has_children: bool,
    /// For each list, the rule of its first candidate if it has no conditions but the path; otherwise `NONE`.
    sure: [u32; 3],
    /// Where its lists begin in `candidates`: exact, prefix with a trailing slash, prefix without; and where they end.
    bounds: [u32; 4],
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    tag: u32,
    child: u32,
}

/// The lists of a node, in the order they are tried.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CandidateList {
    Exact,
    Below,
    Prefix,
}

impl Tree {
    /// Builds the tree from matches ordered by precedence; `problem` is called for those that cannot be compiled, which
    /// then never match.
    pub(crate) fn compiled(ordered: &[RankedMatch<'_>], mut problem: impl FnMut(u32, String)) -> Self {
        let mut builder = TreeBuilder::new();
        for proposal in ordered {
            if let Err(why) = builder.add(proposal) {
                problem(proposal.rule, why);
            }
        }
        builder.finish()
    }

    /// Whether the cost of a lookup depends on the length of the path.
    pub(crate) fn reads_on(&self) -> bool {
        self.regexes.iter().any(|candidate| candidate.path.reads_on())
    }

    /// The index of the best matching rule, and the bytes of the path that it covers.
    #[inline]
    pub(crate) fn find<F: Fields>(&self, path: &[u8], request: &Request<'_, F>) -> Option<(u32, usize)> {
        let (deepest, whole) = self.descend(path);
        let first = &self.nodes[deepest as usize];
        if whole && let Some(rule) = self.fitting(first, CandidateList::Exact, request) {
            return Some((rule, path.len()));
        }
        if let Some(last) = self.regexes.last() {
            if let Some(found) = self.matching(path, request) {
                return Some(found);
            }
            if last.path.is_late() {
                return self.find_around_late(deepest, whole, path, request);
            }
        }
        if whole {
            if let Some(rule) = self.fitting(first, CandidateList::Prefix, request) {
                return Some((rule, path.len()));
            }
        } else if let Some(rule) = self.fitting_prefix(first, request) {
            return Some((rule, first.length as usize));
        }
        let mut up = first.up;
        while let Some(node) = self.nodes.get(up as usize) {
            if let Some(rule) = self.fitting_prefix(node, request) {
                return Some((rule, node.length as usize));
            }
            up = node.up;
        }
        None
    }

    /// Matches prefixes in a host with regular expressions after them: all but `/`, then these expressions, then `/`.
    fn find_around_late<F: Fields>(
        &self,
        deepest: u32,
        whole: bool,
        path: &[u8],
        request: &Request<'_, F>,
    ) -> Option<(u32, usize)> {
        let mut up = deepest;
        if whole {
            let first = &self.nodes[deepest as usize];
            if let Some(rule) = self.fitting(first, CandidateList::Prefix, request) {
                return Some((rule, path.len()));
            }
            up = first.up;
        }
        while let Some(node) = self.nodes.get(up as usize).filter(|_| up != SLASH && up != OTHER) {
            if let Some(rule) = self.fitting_prefix(node, request) {
                return Some((rule, node.length as usize));
            }
            up = node.up;
        }
        let fits = |it: &&PathCandidate| it.path.matches_after_prefixes(path) && it.candidate.fits(request);
        if let Some(late) = self.regexes.iter().find(fits) {
            return Some((late.candidate.rule, 0));
        }
        let root = self.nodes.get(up as usize)?;
        Some((self.fitting_prefix(root, request)?, root.length as usize))
    }

    /// The first regular expression that matches, of those before prefixes.
    fn matching<F: Fields>(&self, path: &[u8], request: &Request<'_, F>) -> Option<(u32, usize)> {
        self.regexes.iter().find_map(|PathCandidate { path: test, candidate }| {
            let covered = test.covered(path)?;
            candidate.fits(request).then_some((candidate.rule, covered))
        })
    }

    /// The deepest node along `path`, and whether the whole path was consumed.
    #[inline]
    fn descend(&self, path: &[u8]) -> (u32, bool) {
        let (mut node, mut rest) = match path {
            [b'/', rest @ ..] => (SLASH, rest),
            rest => (OTHER, rest),
        };
        loop {
            if !self.nodes[node as usize].has_children {
                return (node, false);
            }
            let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
            match self.child(node, &rest[..end]) {
                None => return (node, false),
                Some(child) if end == rest.len() => return (child, true),
                Some(child) => node = child,
            }
            rest = &rest[end + 1..];
        }
    }

    #[inline]
    fn child(&self, parent: u32, element: &[u8]) -> Option<u32> {
        if self.nodes.len() <= FEW_NODES {
            let child_index = self.nodes[2..].iter().position(|node| self.is_child(node, parent, element))?;
            return Some(child_index as u32 + 2);
        }
        let mask = self.edges.len() - 1;
        let hash = self.hash.hash_below(parent, element);
        let (mut place, tag) = (hash as usize & mask, (hash >> 32) as u32);
        loop {
            let edge = self.edges[place];
            if edge.child == NONE {
                return None;
            }
            if edge.tag == tag && self.is_child(&self.nodes[edge.child as usize], parent, element) {
                return Some(edge.child);
            }
            place = (place + 1) & mask;
        }
    }

    #[inline]
    fn is_child(&self, node: &Node, parent: u32, element: &[u8]) -> bool {
        let (start, length) = (node.element_start as usize, node.element_length as usize);
        node.parent == parent
            && length == element.len()
            && match node.head.get(..length) {
                Some(whole) => whole == element,
                None => self.elements[start..start + length] == *element,
            }
    }

    /// The rule of the first candidate in a list that matches.
    #[inline]
    fn fitting<F: Fields>(&self, node: &Node, list: CandidateList, request: &Request<'_, F>) -> Option<u32> {
        if node.sure[list as usize] != NONE {
            return Some(node.sure[list as usize]);
        }
        let candidates = &self.candidates[node.list(list)];
        candidates.iter().find(|candidate| candidate.fits(request)).map(|candidate| candidate.rule)
    }

    /// `/a/` is longer than `/a`, so it is tried first.
    #[inline]
    fn fitting_prefix<F: Fields>(&self, node: &Node, request: &Request<'_, F>) -> Option<u32> {
        self.fitting(node, CandidateList::Below, request)
            .or_else(|| self.fitting(node, CandidateList::Prefix, request))
    }
}

impl Node {
    fn new(parent: u32, length: u32, element_start: u32, element: &[u8]) -> Self {
        let mut head = [0; HEAD];
        let known = element.len().min(HEAD);
        head[..known].copy_from_slice(&element[..known]);
        Self {
            parent,
            up: NONE,
            length,
            element_start,
            element_length: index(element.len()),
            head,
            has_children: false,
            sure: [NONE; 3],
            bounds: [0; 4],
        }
    }

    fn list(&self, list: CandidateList) -> Range<usize> {
        self.bounds[list as usize] as usize..self.bounds[list as usize + 1] as usize
    }

    fn has_prefix(&self) -> bool {
        self.bounds[CandidateList::Below as usize] < self.bounds[3]
    }
}

/// A candidate and its list.
struct ListedCandidate {
    node: u32,
    list: CandidateList,
    candidate: Candidate,
}

/// Builds a tree.
struct TreeBuilder<'m> {
    nodes: Vec<Node>,
    children: HashMap<(u32, &'m str), u32, FastHashState>,
    elements: Vec<u8>,
    entries: Vec<ListedCandidate>,
    regexes: Vec<(usize, PathCandidate)>,
}

impl<'m> TreeBuilder<'m> {
    fn new() -> Self {
        let root = Node::new(NONE, 0, 0, b"");
        Self {
            nodes: vec![root.clone(), root],
            children: HashMap::default(),
            elements: Vec::new(),
            entries: Vec::new(),
            regexes: Vec::new(),
        }
    }

    /// Adds a match; of two on the same path, the first one added is tried first.
    fn add(&mut self, proposal: &RankedMatch<'m>) -> Result<(), String> {
        match &proposal.source.path {
            PathMatch::Exact(path) => {
                let candidate = proposal.candidate()?;
                self.list(path, CandidateList::Exact, candidate);
            }
            PathMatch::Prefix(path) if matches!(&**path, "" | "/") => {
                let candidate = proposal.candidate()?;
                self.entries.push(ListedCandidate {
                    node: OTHER,
                    list: CandidateList::Below,
                    candidate: candidate.clone(),
                });
                self.entries.push(ListedCandidate { node: SLASH, list: CandidateList::Below, candidate });
            }
            PathMatch::Prefix(path) => {
                let candidate = proposal.candidate()?;
                match path.strip_suffix('/') {
                    Some(bare) => self.list(bare, CandidateList::Below, candidate),
                    None => self.list(path, CandidateList::Prefix, candidate),
                }
            }
            PathMatch::Regex { pattern, .. } => {
                let PathCandidate { mut path, candidate } = proposal.path_candidate()?;
                if proposal.source.after_prefixes {
                    path = path.after_prefixes();
                }
                self.regexes.push((pattern.len(), PathCandidate { path, candidate }));
            }
        }
        Ok(())
    }

    fn list(&mut self, path: &'m str, list: CandidateList, candidate: Candidate) {
        let (mut node, elements) = path.strip_prefix('/').map_or((OTHER, path), |rest| (SLASH, rest));
        for element in elements.split('/') {
            node = self.child(node, element);
        }
        self.entries.push(ListedCandidate { node, list, candidate });
    }

    fn child(&mut self, parent: u32, element: &'m str) -> u32 {
        let new = index(self.nodes.len());
        let child = *self.children.entry((parent, element)).or_insert(new);
        if child == new {
            let start = index(self.elements.len());
            self.elements.extend_from_slice(element.as_bytes());
            let above = &mut self.nodes[parent as usize];
            above.has_children = true;
            let above = above.length;
            // `*` and the like have no slash before their first element.
            let slash = u32::from(parent != OTHER);
            let length = above + slash + index(element.len());
            self.nodes.push(Node::new(parent, length, start, element.as_bytes()));
        }
        child
    }

    fn finish(mut self) -> Tree {
        // Stable: the order of precedence is kept within a list.
        self.entries.sort_by_key(|entry| (entry.node, entry.list));
        self.regexes.sort_by_key(|(length, candidate)| (candidate.path.is_late(), Reverse(*length)));
        self.set_bounds();
        let hash = FastHashState::default();
        Tree {
            edges: edges(&self.nodes, &self.elements, hash),
            nodes: self.nodes.into(),
            hash,
            elements: self.elements.into(),
            candidates: self.entries.into_iter().map(|entry| entry.candidate).collect(),
            regexes: self.regexes.into_iter().map(|(_, candidate)| candidate).collect::<Vec<_>>().into(),
        }
    }

    /// Parents precede their children, so one pass suffices.
    fn set_bounds(&mut self) {
        let mut next = 0;
        for number in 0..self.nodes.len() {
            let (mut bounds, mut sure) = ([index(next); 4], [NONE; 3]);
            for list in [CandidateList::Exact, CandidateList::Below, CandidateList::Prefix] {
                let entries = &self.entries[next..];
                let is_listed =
                    |entry: &&ListedCandidate| (entry.node as usize, entry.list) == (number, list);
                let count = entries.iter().take_while(is_listed).count();
                let first = entries[..count].first().map(|entry| &entry.candidate);
                if let Some(first) = first.filter(|first| first.is_unconditional()) {
                    sure[list as usize] = first.rule;
                }
                next += count;
                bounds[list as usize + 1] = index(next);
            }
            let parent = self.nodes[number].parent;
            let up = match self.nodes.get(parent as usize) {
                Some(above) if !above.has_prefix() => above.up,
                Some(_) => parent,
                None => NONE,
            };
            let node = &mut self.nodes[number];
            (node.bounds, node.sure, node.up) = (bounds, sure, up);
        }
    }
}

fn edges(nodes: &[Node], elements: &[u8], hash: FastHashState) -> Box<[Edge]> {
    if nodes.len() <= FEW_NODES {
        return Box::default();
    }
    let children = nodes.len() - 2;
    let size = (children * 2).next_power_of_two();
    let mut edges = vec![Edge { tag: 0, child: NONE }; size];
    for (number, node) in nodes.iter().enumerate().skip(2) {
        let (start, length) = (node.element_start as usize, node.element_length as usize);
        let hash = hash.hash_below(node.parent, &elements[start..start + length]);
        let mut slot = hash as usize & (size - 1);
        while edges[slot].child != NONE {
            slot = (slot + 1) & (size - 1);
        }
        edges[slot] = Edge { tag: (hash >> 32) as u32, child: index(number) };
    }
    edges.into()
}

/// Offsets have four bytes: a configuration of four gigabytes cannot be received.
fn index(position: usize) -> u32 {
    u32::try_from(position).expect("a host has fewer than 2^32 bytes of paths")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_one_cache_line() {
        assert_eq!(size_of::<Node>(), 64);
    }
}
