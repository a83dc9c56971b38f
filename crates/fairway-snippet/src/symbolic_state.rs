//! Symbolic evaluation state: the conditions known to hold for a set of requests, and the values of variables. A
//! snippet has no loops, so it is evaluated for all requests at once: every `if` and every map entry splits a case,
//! and each case continues separately.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{Condition, ConditionTest, PathRewrite, ResponseContent, Template, TemplatePart};
use fairway_pattern::Pattern;
use fairway_pattern::budget::Account;

use crate::map::Maps;
use crate::value::{
    EvaluationStage, WordPart, check_length, fixed_text, is_connection_variable, push, request_part,
    split_word,
};

/// Maximum number of cases.
const MAX_CASES: usize = 48;
/// Maximum number of conditions and of parts of values and header values, over all cases.
const MAX_PARTS: usize = 5_000;
/// Maximum depth of dependent maps.
const MAX_MAPS: usize = 8;

/// A set of requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestCase {
    /// The conditions that hold for them.
    pub(crate) when: Vec<Condition>,
    pub(crate) variables: BTreeMap<String, Template>,
    /// The last `if` block that they entered.
    pub(crate) block: Option<usize>,
    /// Their outcome, once evaluation ends.
    pub(crate) end: Option<CaseEnd>,
}

/// The end of a request case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CaseEnd {
    /// `break`.
    Continues,
    /// `rewrite ... break`.
    Rewritten(PathRewrite),
    /// `return`, or `rewrite` with a redirect.
    Answered { origin: Arc<str>, status: u16, content: ResponseContent },
}

/// State shared by all cases of a snippet.
pub(crate) struct Scope<'m> {
    pub(crate) maps: &'m Maps,
    pub(crate) stage: EvaluationStage,
    account: Account,
    /// Whether a text depends on how the client reached the proxy.
    pub(crate) depends_on_connection: bool,
    /// Parts that may still be written.
    remaining_parts: usize,
    /// Depth of the current map lookup.
    depth: usize,
}

impl<'m> Scope<'m> {
    pub(crate) fn new(maps: &'m Maps, stage: EvaluationStage) -> Self {
        Self {
            maps,
            stage,
            account: Account::default(),
            depends_on_connection: false,
            remaining_parts: MAX_PARTS,
            depth: 0,
        }
    }

    /// Counts what is written for a case: each request evaluates its conditions, and each part of a value takes time.
    pub(crate) fn spend(&mut self, when: &[Condition], value: &Template) -> Result<(), String> {
        let conditions: usize = when.iter().map(|condition| 1 + condition.value.0.len()).sum();
        let Some(left) = self.remaining_parts.checked_sub(1 + conditions + value.0.len()) else {
            return Err(format!("conditions and headers together have more than {MAX_PARTS} parts"));
        };
        self.remaining_parts = left;
        Ok(())
    }

    /// The number of parts written so far.
    pub(crate) fn spent(&self) -> usize {
        MAX_PARTS - self.remaining_parts
    }

    /// Checks that a pattern is usable, and charges its cost to the snippet.
    pub(crate) fn admit(&mut self, test: &ConditionTest) -> Result<(), String> {
        let ConditionTest::Pattern { pattern, ignore_case } = test else { return Ok(()) };
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

/// `(?<name>`, `(?P<name>`, `(?'name'`, but not a look-behind.
fn has_named_group(pattern: &str) -> bool {
    let groups = pattern.split("(?").skip(1);
    groups.into_iter().any(|group| {
        group.starts_with(['P', '\''])
            || group.strip_prefix('<').is_some_and(|rest| !rest.starts_with(['=', '!']))
    })
}

/// The cases in which a word has a given value.
pub(crate) type CaseValues = Vec<(RequestCase, Template)>;

impl RequestCase {
    /// Splits the case by a condition, into requests for which it holds and the others.
    pub(crate) fn split(self, condition: &Condition) -> (Option<Self>, Option<Self>) {
        match implied_result(&self.when, condition) {
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

    /// Expands a word. A map in it splits the case.
    pub(crate) fn expand(self, word: &str, scope: &mut Scope<'_>) -> Result<CaseValues, String> {
        let mut worlds = vec![(self, Template::default())];
        for piece in split_word(word)? {
            match piece {
                WordPart::Text(text) => {
                    worlds
                        .iter_mut()
                        .for_each(|(_, value)| push(value, TemplatePart::Text(text.as_str().into())));
                }
                WordPart::Capture(digit) => {
                    return Err(format!(
                        "${digit} stands for a part of the path, which works in rewrite only"
                    ));
                }
                WordPart::Variable(name) => {
                    let mut further = Vec::new();
                    for (world, value) in worlds {
                        for (world, part) in world.look_up_variable(&name, scope)? {
                            let mut value = value.clone();
                            part.0.into_iter().for_each(|part| push(&mut value, part));
                            check_length(&value)?;
                            further.push((world, value));
                        }
                    }
                    worlds = check_case_count(further)?;
                }
            }
        }
        Ok(worlds)
    }

    fn look_up_variable(self, name: &str, scope: &mut Scope<'_>) -> Result<CaseValues, String> {
        if let Some(value) = self.variables.get(name).cloned() {
            return Ok(vec![(self, value)]);
        }
        let maps = scope.maps;
        let Some(map) = maps.get(name) else {
            let part = request_part(name, scope.stage)?;
            scope.depends_on_connection |= is_connection_variable(name);
            return Ok(vec![(self, Template(vec![part]))]);
        };
        map.patterns().try_for_each(|test| scope.admit(test))?;
        if scope.depth == MAX_MAPS {
            return Err(format!("the map of ${name} depends on more than {MAX_MAPS} others"));
        }
        scope.depth += 1;
        let mut valued = Vec::new();
        for (world, source) in self.expand(&map.source, scope)? {
            let mut current = Some(world);
            for (test, value) in &map.entries {
                let Some(world) = current.take() else { break };
                let condition = Condition { value: source.clone(), test: test.clone(), negated: false };
                let (holds, fails) = world.split(&condition);
                if let Some(world) = holds {
                    valued.extend(world.expand(value, scope)?);
                }
                current = fails;
            }
            if let Some(world) = current {
                valued.extend(world.expand(&map.default, scope)?);
            }
        }
        scope.depth -= 1;
        // nginx evaluates a map once per request.
        for (world, value) in &mut valued {
            world.variables.insert(name.to_owned(), value.clone());
        }
        check_case_count(valued)
    }
}

pub(crate) fn check_case_count<T>(worlds: Vec<T>) -> Result<Vec<T>, String> {
    match worlds.len() {
        0..=MAX_CASES => Ok(worlds),
        _ => Err(format!("the conditions before it make more than {MAX_CASES} cases")),
    }
}

/// Whether known conditions imply that a condition holds, or that it does not.
fn implied_result(when: &[Condition], condition: &Condition) -> Option<bool> {
    let Condition { value, test, negated } = condition;
    if let Some(text) = fixed_text(value) {
        return test_passes(test, text).map(|holds| holds != *negated);
    }
    when.iter().filter(|known| known.value == *value).find_map(|known| match (&known.test, known.negated) {
        (same, other) if same == test => Some(other == *negated),
        (ConditionTest::Equal(text), false) => test_passes(test, text).map(|holds| holds != *negated),
        _ => None,
    })
}

/// Whether a text passes the test; `None` if the pattern is unusable.
fn test_passes(test: &ConditionTest, text: &str) -> Option<bool> {
    Some(match test {
        ConditionTest::Truth => !matches!(text, "" | "0"),
        ConditionTest::Equal(other) => **other == *text,
        ConditionTest::EqualIgnoringCase(other) => other.eq_ignore_ascii_case(text),
        ConditionTest::TooLong => return None,
        ConditionTest::Pattern { pattern, ignore_case } => {
            Pattern::anywhere(pattern, *ignore_case).ok()?.is_match(text.as_bytes())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn implied_conditions_do_not_split_cases() {
        let value = || Template(vec![TemplatePart::Method]);
        let equal = |text: &str, negated| Condition {
            value: value(),
            test: ConditionTest::Equal(text.into()),
            negated,
        };
        let (post, other) = RequestCase::default().split(&equal("POST", false));
        let (post, other) = (post.unwrap(), other.unwrap());
        assert!(post.clone().split(&equal("POST", true)).0.is_none());
        assert!(post.clone().split(&equal("GET", false)).0.is_none());
        let pattern = ConditionTest::Pattern { pattern: "^P".into(), ignore_case: false };
        assert!(post.split(&Condition { value: value(), test: pattern, negated: false }).1.is_none());
        assert!(other.clone().split(&equal("POST", false)).0.is_none());
        let (get, rest) = other.split(&equal("GET", false));
        assert_eq!((get.unwrap().when.len(), rest.unwrap().when.len()), (2, 2));
    }
}
