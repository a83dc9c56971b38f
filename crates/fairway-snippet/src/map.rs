//! `map` blocks of `http-snippet`: variables whose value depends on that of another.

use std::collections::BTreeMap;

use fairway_model::Test;

use crate::problem::Problem;
use crate::syntax::Directive;

/// Entries that a map may have.
const MAX_ENTRIES: usize = 40;

/// The maps that snippets may use, by the name of their variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maps(BTreeMap<String, Map>);

/// A map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Map {
    /// What is compared: a word with variables.
    pub(crate) source: String,
    /// The first that passes counts: texts before patterns, as in nginx.
    pub(crate) entries: Vec<(Test, String)>,
    pub(crate) default: String,
}

impl Maps {
    pub(crate) fn get(&self, name: &str) -> Option<&Map> {
        self.0.get(name)
    }

    /// Reads a `map` directive.
    pub(crate) fn read(&mut self, directive: &Directive) -> Result<(), Problem> {
        let problem = |reason: &str| Problem::new(directive.line, &directive.text(), reason);
        let ([source, name], Some(block)) = (&*directive.words, &directive.block) else {
            return Err(problem("it needs a value, a variable and a block"));
        };
        let Some(name) = name.strip_prefix('$') else {
            return Err(problem("the second word is no variable"));
        };
        let (mut texts, mut patterns, mut default) = (Vec::new(), Vec::new(), String::new());
        for entry in block {
            let wrong = |reason: &str| Err(Problem::new(entry.line, &entry.text(), reason));
            let [value] = &*entry.words else { return wrong("only entries with one value work in a map") };
            if entry.name == "include" || entry.block.is_some() {
                return wrong("it works in no map");
            }
            match entry.name.as_str() {
                "default" => default.clone_from(value),
                key if key.starts_with("~*") => {
                    patterns
                        .push((Test::Pattern { pattern: key[2..].into(), ignore_case: true }, value.clone()));
                }
                key if key.starts_with('~') => {
                    patterns.push((
                        Test::Pattern { pattern: key[1..].into(), ignore_case: false },
                        value.clone(),
                    ));
                }
                key => {
                    let key = key.strip_prefix('\\').unwrap_or(key);
                    texts.push((Test::EqualIgnoringCase(key.into()), value.clone()));
                }
            }
        }
        texts.append(&mut patterns);
        if texts.len() > MAX_ENTRIES {
            return Err(problem(&format!("it has {} entries, and {MAX_ENTRIES} work", texts.len())));
        }
        let map = Map { source: source.clone(), entries: texts, default };
        match self.0.insert(name.to_ascii_lowercase(), map) {
            Some(_) => Err(problem("the variable has a map already")),
            None => Ok(()),
        }
    }
}

impl Map {
    pub(crate) fn patterns(&self) -> impl Iterator<Item = &Test> {
        self.entries.iter().map(|(test, _)| test).filter(|test| matches!(test, Test::Pattern { .. }))
    }
}
