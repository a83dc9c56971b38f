//! The paths of an Ingress as regular expressions: which of them can be used, and what they cost. Judged by the object alone,
//! so that its limits do not depend on others; what the patterns of a host cost together is in [`crate::path`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use fairway_pattern::budget::Account;
use fairway_pattern::{Anchor, Cost, Finder, Pattern, Refusal};
use k8s_openapi::api::networking::v1::IngressSpec;

use crate::plan::{Paths, Treatment};
use crate::rewrite;

/// A path as a regular expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// It can be used; this is the text that its matches begin with, and the steps of a comparison.
    Usable { start: Arc<[u8]>, steps: u64 },
    /// What follows "the regular expression" in a sentence.
    Refused(Arc<str>),
    /// As before, because of what it costs together with others.
    TooMuch(Arc<str>),
}

/// The paths of one Ingress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Patterns(HashMap<Arc<str>, Judged>);

impl Patterns {
    /// Judges the paths of an Ingress in their order.
    pub(crate) fn of(spec: Option<&IngressSpec>, treatment: &Treatment) -> Self {
        let target = treatment.rewrite.as_deref();
        let rules = spec.and_then(|spec| spec.rules.as_ref()).into_iter().flatten();
        let paths = rules.filter_map(|rule| rule.http.as_ref()).flat_map(|http| &http.paths);
        let mut account = Account::default();
        let mut judged = HashMap::new();
        let mut add = |path: &str, captures| {
            if !judged.contains_key(path) {
                judged.insert(path.into(), judge(path, captures, &mut account));
            }
        };
        for path in paths.filter_map(|path| path.path.as_deref()) {
            let rewrites = target.is_some_and(|target| target != path);
            add(path, rewrites && target.is_some_and(rewrite::has_captures));
            // Where it is a plain path of a host with patterns (`Layout::pattern_entries`).
            if !rewrites && treatment.paths == Paths::Plain && !path.ends_with('/') {
                add(&format!("{path}/"), false);
            }
        }
        Self(judged)
    }

    /// What is known of `path`; one that no Ingress wrote is judged by itself.
    pub(crate) fn judged(&self, path: &str) -> Judged {
        self.0.get(path).cloned().unwrap_or_else(|| judge(path, false, &mut Account::default()))
    }
}

fn judge(path: &str, captures: bool, account: &mut Account) -> Judged {
    if let Err(spent) = account.admit(Cost::default()) {
        return Judged::TooMuch(spent.to_string().into());
    }
    let is_plain = fairway_pattern::literal_start(path) == path;
    if is_plain && !captures {
        return Judged::Usable { start: path.to_ascii_lowercase().into_bytes().into(), steps: 0 };
    }
    match compiled(&of_path(path), captures) {
        Err(refusal) => {
            account.refused(refusal.work());
            Judged::Refused(refusal.to_string().into())
        }
        Ok((pattern, more)) => {
            let cost = pattern.cost();
            let both =
                Cost { steps: cost.steps, memory: cost.memory + more.memory, work: cost.work + more.work };
            match account.admit(both) {
                Ok(()) => Judged::Usable { start: pattern.start().into(), steps: cost.steps },
                Err(why) => Judged::TooMuch(why.to_string().into()),
            }
        }
    }
}

/// The pattern, and what the search for its captures costs.
fn compiled(pattern: &str, captures: bool) -> Result<(Arc<Pattern>, Cost), Refusal> {
    let compiled = Pattern::shared(pattern, Anchor::Start, true)?;
    let more = match captures {
        true => Finder::shared(pattern, true)?.cost(),
        false => Cost::default(),
    };
    Ok((compiled, more))
}

/// The pattern that nginx reads where ingress-nginx has written `path` between quotes: two backslashes are one there
/// (`ngx_conf_read_token`).
pub(crate) fn of_path(path: &str) -> Cow<'_, str> {
    match path.contains(r"\\") {
        true => path.replace(r"\\", r"\").into(),
        false => path.into(),
    }
}
