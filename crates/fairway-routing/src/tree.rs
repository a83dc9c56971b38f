//! The paths of a host as a tree of elements, so that a lookup costs the elements of the request's path and not the
//! number of routes: exact path, then the longest prefix, then regular expressions.
//!
//! A lookup walks down as far as the tree goes and then climbs, which visits the prefixes from the longest to the
//! shortest. The tree never changes after it is built.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

use fairway_model::{PathMatch, VirtualHost};

use crate::candidate::{Candidate, PathCandidate, Proposal, proposals};
use crate::hash::FastState;
use crate::{Fields, Request};

/// Where paths begin that start with a slash.
const SLASH: u32 = 0;
/// Where all others begin: `*` and the empty path.
const OTHER: u32 = 1;
const NONE: u32 = u32::MAX;

/// The candidates of a host by path.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    nodes: Box<[Node]>,
    /// Open addressing; a power of two, at most half full.
    edges: Box<[Edge]>,
    hash: FastState,
    /// The elements of all nodes, one after the other.
    elements: Box<[u8]>,
    /// The lists of all nodes, one after the other.
    candidates: Box<[Candidate]>,
    /// The longest pattern first.
    regexes: Box<[PathCandidate]>,
}

/// The end of a path of elements.
#[derive(Clone, Debug)]
struct Node {
    parent: u32,
    /// The next node towards the root that has a prefix.
    up: u32,
    /// Where its element is in `elements`.
    element: (u32, u32),
    /// How long the path to here is in bytes.
    length: u32,
    /// Where its lists begin in `candidates`: exact, prefix with a trailing slash, prefix without; and where they end.
    bounds: [u32; 4],
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    tag: u32,
    child: u32,
}

/// Which list of a node: in the order in which they are tried.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum List {
    Exact,
    Below,
    Prefix,
}

impl Tree {
    /// Takes the matches of `host`; `problem` hears of those that cannot be compiled, which then match nothing.
    pub(crate) fn compiled(host: &VirtualHost, mut problem: impl FnMut(u32, String)) -> Self {
        let mut ordered: Vec<_> = proposals(host).collect();
        ordered.sort_by(Proposal::precedence);
        let mut builder = Builder::new();
        for proposal in &ordered {
            if let Err(why) = builder.add(proposal) {
                problem(proposal.rule, why);
            }
        }
        builder.finish()
    }

    /// The number of the best rule that fits, and the bytes of the path that it covers.
    #[inline]
    pub(crate) fn find<F: Fields>(&self, path: &[u8], request: &Request<'_, F>) -> Option<(u32, usize)> {
        let (deepest, whole) = self.descend(path);
        let first = &self.nodes[deepest as usize];
        if whole {
            if let Some(rule) = self.fitting(first.list(List::Exact), request) {
                return Some((rule, path.len()));
            }
            if let Some(rule) = self.fitting(first.list(List::Prefix), request) {
                return Some((rule, path.len()));
            }
        } else if let Some(rule) = self.fitting(first.prefixes(), request) {
            return Some((rule, first.length as usize));
        }
        let mut up = first.up;
        while let Some(node) = self.nodes.get(up as usize) {
            if let Some(rule) = self.fitting(node.prefixes(), request) {
                return Some((rule, node.length as usize));
            }
            up = node.up;
        }
        self.regexes.iter().find_map(|PathCandidate { path: test, candidate }| {
            let covered = test.covered(path)?;
            candidate.fits(request).then_some((candidate.rule, covered))
        })
    }

    /// The deepest node on the way of `path`, and whether that is all of it.
    #[inline]
    fn descend(&self, path: &[u8]) -> (u32, bool) {
        let (mut node, mut rest) = match path {
            [b'/', rest @ ..] => (SLASH, rest),
            rest => (OTHER, rest),
        };
        loop {
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
        let mask = self.edges.len().checked_sub(1)?;
        let hash = self.hash.of(parent, element);
        let (mut index, tag) = (hash as usize & mask, (hash >> 32) as u32);
        loop {
            let edge = self.edges[index];
            if edge.child == NONE {
                return None;
            }
            if edge.tag == tag {
                let node = &self.nodes[edge.child as usize];
                let (start, end) = node.element;
                if node.parent == parent && self.elements[start as usize..end as usize] == *element {
                    return Some(edge.child);
                }
            }
            index = (index + 1) & mask;
        }
    }

    #[inline]
    fn fitting<F: Fields>(&self, list: Range<usize>, request: &Request<'_, F>) -> Option<u32> {
        self.candidates[list].iter().find(|candidate| candidate.fits(request)).map(|candidate| candidate.rule)
    }
}

impl Node {
    fn list(&self, list: List) -> Range<usize> {
        self.bounds[list as usize] as usize..self.bounds[list as usize + 1] as usize
    }

    /// `/a/` is longer than `/a`, and so tried first.
    fn prefixes(&self) -> Range<usize> {
        self.bounds[List::Below as usize] as usize..self.bounds[3] as usize
    }
}

/// A tree that grows.
struct Builder<'m> {
    nodes: Vec<Node>,
    children: HashMap<(u32, &'m str), u32, FastState>,
    elements: Vec<u8>,
    entries: Vec<(u32, List, Candidate)>,
    regexes: Vec<(usize, PathCandidate)>,
}

impl<'m> Builder<'m> {
    fn new() -> Self {
        let root = Node { parent: NONE, up: NONE, element: (0, 0), length: 0, bounds: [0; 4] };
        Self {
            nodes: vec![root.clone(), root],
            children: HashMap::default(),
            elements: Vec::new(),
            entries: Vec::new(),
            regexes: Vec::new(),
        }
    }

    /// Adds a match; of two on the same path the one that comes first is tried first.
    fn add(&mut self, proposal: &Proposal<'m>) -> Result<(), String> {
        match &proposal.of.path {
            PathMatch::Exact(path) => {
                let candidate = proposal.candidate()?;
                self.list(path, List::Exact, candidate);
            }
            PathMatch::Prefix(path) if matches!(&**path, "" | "/") => {
                let candidate = proposal.candidate()?;
                self.entries.push((OTHER, List::Below, candidate.clone()));
                self.entries.push((SLASH, List::Below, candidate));
            }
            PathMatch::Prefix(path) => {
                let candidate = proposal.candidate()?;
                match path.strip_suffix('/') {
                    Some(bare) => self.list(bare, List::Below, candidate),
                    None => self.list(path, List::Prefix, candidate),
                }
            }
            PathMatch::Regex { pattern, .. } => {
                self.regexes.push((pattern.len(), proposal.path_candidate()?));
            }
        }
        Ok(())
    }

    fn list(&mut self, path: &'m str, list: List, candidate: Candidate) {
        let (mut node, elements) = path.strip_prefix('/').map_or((OTHER, path), |rest| (SLASH, rest));
        for element in elements.split('/') {
            node = self.child(node, element);
        }
        self.entries.push((node, list, candidate));
    }

    fn child(&mut self, parent: u32, element: &'m str) -> u32 {
        let new = index(self.nodes.len());
        let child = *self.children.entry((parent, element)).or_insert(new);
        if child == new {
            let start = index(self.elements.len());
            self.elements.extend_from_slice(element.as_bytes());
            let above = self.nodes[parent as usize].length;
            // `*` and the like have no slash before their first element.
            let slash = u32::from(parent != OTHER);
            self.nodes.push(Node {
                parent,
                up: NONE,
                element: (start, index(self.elements.len())),
                length: above + slash + index(element.len()),
                bounds: [0; 4],
            });
        }
        child
    }

    fn finish(mut self) -> Tree {
        // Stable: within a list the order of precedence stays.
        self.entries.sort_by_key(|(node, list, _)| (*node, *list));
        self.regexes.sort_by_key(|(length, _)| Reverse(*length));
        self.set_bounds();
        let hash = FastState::default();
        Tree {
            edges: edges(&self.nodes, &self.elements, hash),
            nodes: self.nodes.into(),
            hash,
            elements: self.elements.into(),
            candidates: self.entries.into_iter().map(|(_, _, candidate)| candidate).collect(),
            regexes: self.regexes.into_iter().map(|(_, candidate)| candidate).collect(),
        }
    }

    /// A parent always comes before its children, so that one pass is enough.
    fn set_bounds(&mut self) {
        let mut next = 0;
        for number in 0..self.nodes.len() {
            let mut bounds = [index(next); 4];
            for list in [List::Exact, List::Below, List::Prefix] {
                let entries = &self.entries[next..];
                next +=
                    entries.iter().take_while(|entry| (entry.0 as usize, entry.1) == (number, list)).count();
                bounds[list as usize + 1] = index(next);
            }
            let parent = self.nodes[number].parent;
            let up = match self.nodes.get(parent as usize) {
                Some(above) if above.prefixes().is_empty() => above.up,
                Some(_) => parent,
                None => NONE,
            };
            let node = &mut self.nodes[number];
            (node.bounds, node.up) = (bounds, up);
        }
    }
}

fn edges(nodes: &[Node], elements: &[u8], hash: FastState) -> Box<[Edge]> {
    let children = nodes.len() - 2;
    if children == 0 {
        return Box::default();
    }
    let size = (children * 2).next_power_of_two();
    let mut edges = vec![Edge { tag: 0, child: NONE }; size];
    for (number, node) in nodes.iter().enumerate().skip(2) {
        let (start, end) = node.element;
        let hash = hash.of(node.parent, &elements[start as usize..end as usize]);
        let mut place = hash as usize & (size - 1);
        while edges[place].child != NONE {
            place = (place + 1) & (size - 1);
        }
        edges[place] = Edge { tag: (hash >> 32) as u32, child: index(number) };
    }
    edges.into()
}

/// Positions are four bytes wide: a configuration of four gigabytes cannot be received.
fn index(position: usize) -> u32 {
    u32::try_from(position).expect("a host has fewer than 2^32 bytes of paths")
}
