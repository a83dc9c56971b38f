//! `map` blocks of `http-snippet`: variables whose value depends on another one.

use std::collections::BTreeMap;

use fairway_model::ConditionTest;
use fairway_pattern::Pattern;

use crate::own_variables;
use crate::problem::Problem;
use crate::syntax::Directive;

/// Maximum entries of a map.
const MAX_ENTRIES: usize = 40;
/// Maximum bytes of a text: an element of a bucket of 64 bytes (`map_hash_bucket_size`), minus two pointers.
const MAX_KEY: usize = 46;

/// The maps available to snippets, by variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maps(BTreeMap<String, Map>);

/// A map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Map {
    /// The compared text with variables.
    pub(crate) source: String,
    /// The first match applies: texts before patterns, as in nginx.
    pub(crate) entries: Vec<(ConditionTest, String)>,
    pub(crate) default: String,
}

impl Maps {
    pub(crate) fn get(&self, name: &str) -> Option<&Map> {
        self.0.get(name)
    }

    /// Reads the `map` directives.
    pub(crate) fn read<'d>(directives: impl Iterator<Item = &'d Directive>) -> Result<Self, Problem> {
        let mut maps = Self::default();
        for directive in directives {
            let problem = |reason: &str| Problem::new(directive.line, &directive.text(), reason);
            let [source, name] = &*directive.words else {
                return Err(problem("it needs a value and a variable"));
            };
            let Some(name) = name.strip_prefix('$').map(str::to_ascii_lowercase) else {
                return Err(problem("the second word is no variable"));
            };
            if own_variables::is_builtin_variable(&name) {
                return Err(problem("the variable is set already, and what depends on it is not known here"));
            }
            if maps.0.insert(name, Map::read(source, directive)?).is_some() {
                return Err(problem("the variable has a map already"));
            }
        }
        Ok(maps)
    }
}

impl Map {
    fn read(source: &str, directive: &Directive) -> Result<Self, Problem> {
        let Some(block) = &directive.block else {
            return Err(Problem::new(directive.line, &directive.text(), "it needs a block"));
        };
        let (mut texts, mut patterns, mut default) =
            (Vec::<(ConditionTest, String)>::new(), Vec::new(), None);
        for entry in block {
            let wrong = |reason: &str| Err(Problem::new(entry.line, &entry.text(), reason));
            let [value] = &*entry.words else { return wrong("only entries with one value work in a map") };
            if matches!(entry.name.as_str(), "include" | "hostnames" | "volatile") || entry.block.is_some() {
                return wrong("it works in no map");
            }
            match entry.name.as_str() {
                "default" => {
                    if default.replace(value.clone()).is_some() {
                        return wrong("the map has a default already");
                    }
                }
                key if key.starts_with('~') => match read_pattern(key) {
                    Ok(pattern) => patterns.push((pattern, value.clone())),
                    Err(reason) => return wrong(&reason),
                },
                key => {
                    let key = key.strip_prefix('\\').unwrap_or(key);
                    if key.len() > MAX_KEY {
                        return wrong(
                            "a text may have 46 bytes, unless nginx has larger buckets (map-hash-bucket-size)",
                        );
                    }
                    let same = |(test, _): &(ConditionTest, String)| matches!(test, ConditionTest::EqualIgnoringCase(known) if known.eq_ignore_ascii_case(key));
                    if texts.iter().any(same) {
                        return wrong("the map has this entry already");
                    }
                    texts.push((ConditionTest::EqualIgnoringCase(key.into()), value.clone()));
                }
            }
        }
        texts.append(&mut patterns);
        if texts.len() > MAX_ENTRIES {
            let reason = format!("it has {} entries, and {MAX_ENTRIES} work", texts.len());
            return Err(Problem::new(directive.line, &directive.text(), reason));
        }
        Ok(Self { source: source.to_owned(), entries: texts, default: default.unwrap_or_default() })
    }

    pub(crate) fn patterns(&self) -> impl Iterator<Item = &ConditionTest> {
        self.entries.iter().map(|(test, _)| test).filter(|test| matches!(test, ConditionTest::Pattern { .. }))
    }
}

/// The test of an entry that begins with `~`. nginx never compares an empty value with patterns
/// (`ngx_http_map_find`), so a pattern that matches it has no equivalent.
fn read_pattern(key: &str) -> Result<ConditionTest, String> {
    let (pattern, ignore_case) = match key.strip_prefix("~*") {
        Some(pattern) => (pattern, true),
        None => (&key[1..], false),
    };
    let compiled = Pattern::anywhere(pattern, ignore_case);
    match compiled.map_err(|why| format!("its regular expression {why}"))?.is_match(b"") {
        true => {
            Err("its regular expression is found in an empty value, with which nginx compares none"
                .to_owned())
        }
        false => Ok(ConditionTest::Pattern { pattern: pattern.into(), ignore_case }),
    }
}
