//! What is known of a request at one place of a snippet: the conditions that hold there, and the values of variables. A snippet
//! without loops is run for all requests at once: every `if` and every entry of a map divides them, and each part goes on by itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{Condition, Content, PathRewrite, Template, TemplatePart, Test};
use fairway_pattern::Pattern;
use fairway_pattern::budget::Account;

use crate::map::Maps;
use crate::value::{Piece, Stage, check_length, fixed, is_of_link, pieces, push, variable};

/// Parts into which requests may be divided.
const MAX_WORLDS: usize = 48;
/// Conditions, and parts of their values and of those of headers, in all parts of the requests together.
const MAX_PARTS: usize = 5_000;
/// Maps that depend on each other.
const MAX_MAPS: usize = 8;

/// Some of the requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    /// What they have in common.
    pub(crate) when: Vec<Condition>,
    pub(crate) variables: BTreeMap<String, Template>,
    /// The last `if` block that they went through.
    pub(crate) block: Option<usize>,
    /// What became of them, once nothing more is run.
    pub(crate) end: Option<End>,
}

/// How a world ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// `break`.
    Goes,
    /// `rewrite ... break`.
    Rewritten(PathRewrite),
    /// `return`, or `rewrite` to elsewhere.
    Answered { origin: Arc<str>, status: u16, content: Content },
}

/// What all worlds of a snippet share.
pub(crate) struct Scope<'m> {
    pub(crate) maps: &'m Maps,
    pub(crate) stage: Stage,
    account: Account,
    /// Whether a text says how the client reached the proxy.
    pub(crate) reads_link: bool,
    /// Parts of texts that may still be written down.
    left: usize,
    /// Maps that are being looked up, one for the other.
    depth: usize,
}

impl<'m> Scope<'m> {
    pub(crate) fn new(maps: &'m Maps, stage: Stage) -> Self {
        Self { maps, stage, account: Account::default(), reads_link: false, left: MAX_PARTS, depth: 0 }
    }

    /// Counts what is written down for some of the requests: each evaluates it, and each part of a value takes time.
    pub(crate) fn spend(&mut self, when: &[Condition], value: &Template) -> Result<(), String> {
        let conditions: usize = when.iter().map(|condition| 1 + condition.value.0.len()).sum();
        let Some(left) = self.left.checked_sub(1 + conditions + value.0.len()) else {
            return Err(format!("conditions and headers together have more than {MAX_PARTS} parts"));
        };
        self.left = left;
        Ok(())
    }

    /// How much is written down so far.
    pub(crate) fn spent(&self) -> usize {
        MAX_PARTS - self.left
    }

    /// Whether a pattern can be used, and what all those of the snippet cost together.
    pub(crate) fn admit(&mut self, test: &Test) -> Result<(), String> {
        let Test::Pattern { pattern, ignore_case } = test else { return Ok(()) };
        if has_named_group(pattern) {
            return Err(
                "its regular expression gives a group a name, which sets a variable in nginx".to_owned()
            );
        }
        let compiled = Pattern::anywhere(pattern, *ignore_case);
        let cost = compiled.map_err(|why| format!("its regular expression {why}"))?.cost();
        self.account.admit(cost).map_err(|why| format!("its regular expression {why}"))
    }
}

/// `(?<name>`, `(?P<name>`, `(?'name'`, and not a look behind.
fn has_named_group(pattern: &str) -> bool {
    let groups = pattern.split("(?").skip(1);
    groups.into_iter().any(|group| {
        group.starts_with(['P', '\''])
            || group.strip_prefix('<').is_some_and(|rest| !rest.starts_with(['=', '!']))
    })
}

/// The worlds in which a word has this value.
pub(crate) type Valued = Vec<(World, Template)>;

impl World {
    /// Divides the requests by a condition: those for which it holds, and the others.
    pub(crate) fn divided(self, condition: &Condition) -> (Option<Self>, Option<Self>) {
        match decided(&self.when, condition) {
            Some(true) => (Some(self), None),
            Some(false) => (None, Some(self)),
            None => {
                let (mut holds, mut fails) = (self.clone(), self);
                holds.when.push(condition.clone());
                fails.when.push(Condition { negated: !condition.negated, ..condition.clone() });
                (Some(holds), Some(fails))
            }
        }
    }

    /// The value of a word. A map in it divides the requests.
    pub(crate) fn expand(self, word: &str, scope: &mut Scope<'_>) -> Result<Valued, String> {
        let mut worlds = vec![(self, Template::default())];
        for piece in pieces(word)? {
            match piece {
                Piece::Text(text) => {
                    worlds
                        .iter_mut()
                        .for_each(|(_, value)| push(value, TemplatePart::Text(text.as_str().into())));
                }
                Piece::Capture(digit) => {
                    return Err(format!(
                        "${digit} stands for a part of the path, which works in rewrite only"
                    ));
                }
                Piece::Variable(name) => {
                    let mut further = Vec::new();
                    for (world, value) in worlds {
                        for (world, part) in world.look_up(&name, scope)? {
                            let mut value = value.clone();
                            part.0.into_iter().for_each(|part| push(&mut value, part));
                            check_length(&value)?;
                            further.push((world, value));
                        }
                    }
                    worlds = bounded(further)?;
                }
            }
        }
        Ok(worlds)
    }

    fn look_up(self, name: &str, scope: &mut Scope<'_>) -> Result<Valued, String> {
        if let Some(value) = self.variables.get(name).cloned() {
            return Ok(vec![(self, value)]);
        }
        let maps = scope.maps;
        let Some(map) = maps.get(name) else {
            let part = variable(name, scope.stage)?;
            scope.reads_link |= is_of_link(name);
            return Ok(vec![(self, Template(vec![part]))]);
        };
        map.patterns().try_for_each(|test| scope.admit(test))?;
        if scope.depth == MAX_MAPS {
            return Err(format!("the map of ${name} depends on more than {MAX_MAPS} others"));
        }
        scope.depth += 1;
        let mut valued = Vec::new();
        for (world, source) in self.expand(&map.source, scope)? {
            let mut left = Some(world);
            for (test, value) in &map.entries {
                let Some(world) = left.take() else { break };
                let condition = Condition { value: source.clone(), test: test.clone(), negated: false };
                let (holds, fails) = world.divided(&condition);
                if let Some(world) = holds {
                    valued.extend(world.expand(value, scope)?);
                }
                left = fails;
            }
            if let Some(world) = left {
                valued.extend(world.expand(&map.default, scope)?);
            }
        }
        scope.depth -= 1;
        // nginx evaluates a map once for a request.
        for (world, value) in &mut valued {
            world.variables.insert(name.to_owned(), value.clone());
        }
        bounded(valued)
    }
}

pub(crate) fn bounded<T>(worlds: Vec<T>) -> Result<Vec<T>, String> {
    match worlds.len() {
        0..=MAX_WORLDS => Ok(worlds),
        _ => Err(format!("the conditions before it make more than {MAX_WORLDS} cases")),
    }
}

/// Whether a condition holds for certain, or does not, where others hold.
fn decided(when: &[Condition], condition: &Condition) -> Option<bool> {
    let Condition { value, test, negated } = condition;
    if let Some(text) = fixed(value) {
        return holds(test, text).map(|holds| holds != *negated);
    }
    when.iter().filter(|known| known.value == *value).find_map(|known| match (&known.test, known.negated) {
        (same, other) if same == test => Some(other == *negated),
        (Test::Equal(text), false) => holds(test, text).map(|holds| holds != *negated),
        _ => None,
    })
}

/// Whether a text passes; `None` where the pattern cannot be used.
fn holds(test: &Test, text: &str) -> Option<bool> {
    Some(match test {
        Test::Truth => !matches!(text, "" | "0"),
        Test::Equal(other) => **other == *text,
        Test::EqualIgnoringCase(other) => other.eq_ignore_ascii_case(text),
        Test::TooLong => return None,
        Test::Pattern { pattern, ignore_case } => {
            Pattern::anywhere(pattern, *ignore_case).ok()?.is_match(text.as_bytes())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_divides_no_further() {
        let value = || Template(vec![TemplatePart::Method]);
        let equal =
            |text: &str, negated| Condition { value: value(), test: Test::Equal(text.into()), negated };
        let (post, other) = World::default().divided(&equal("POST", false));
        let (post, other) = (post.unwrap(), other.unwrap());
        assert!(post.clone().divided(&equal("POST", true)).0.is_none());
        assert!(post.clone().divided(&equal("GET", false)).0.is_none());
        let pattern = Test::Pattern { pattern: "^P".into(), ignore_case: false };
        assert!(post.divided(&Condition { value: value(), test: pattern, negated: false }).1.is_none());
        assert!(other.clone().divided(&equal("POST", false)).0.is_none());
        let (get, rest) = other.divided(&equal("GET", false));
        assert_eq!((get.unwrap().when.len(), rest.unwrap().when.len()), (2, 2));
    }
}
