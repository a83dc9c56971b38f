//! Paths of an Ingress as regular expressions: which are usable, and their cost. The verdict depends only on the
//! object, not on others; `order` limits the total cost per host.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{PathRewrite, Redirect, RedirectTarget};
use fairway_objects::shared;
use fairway_pattern::budget::Account;
use fairway_pattern::{Anchor, Cost, Finder, Pattern, Refusal};
use k8s_openapi::api::networking::v1::IngressSpec;

use crate::ingress::contributions::Contributions;

/// Whether a path is usable as a regular expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PatternVerdict {
    /// Usable, with the literal prefix of its matches and the steps of a comparison.
    Usable { start: Arc<[u8]>, steps: u64 },
    /// The problem, as the text after "the regular expression" in a message.
    Refused(Arc<str>),
    /// Refused only because the patterns of the Ingress exceed their budget together; the text is the problem.
    TooMuch(Arc<str>),
}

/// The paths of one Ingress, in order and without spare capacity: there is one list per Ingress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Patterns(Box<[(Arc<str>, PatternVerdict)]>);

impl Patterns {
    /// Checks the paths of an Ingress in order.
    pub(crate) fn from_paths(spec: Option<&IngressSpec>, contributions: &Contributions) -> Self {
        let target = contributions.rewrite.target.as_deref();
        let captures =
            [target, contributions.rewrite.prefix.as_deref()].into_iter().flatten().any(has_captures);
        let rules = spec.and_then(|spec| spec.rules.as_ref()).into_iter().flatten();
        let paths = rules.filter_map(|rule| rule.http.as_ref()).flat_map(|http| &http.paths);
        let mut account = Account::default();
        let mut judged: BTreeMap<Arc<str>, PatternVerdict> = BTreeMap::new();
        let mut add = |path: &str, captures| {
            if !judged.contains_key(path) {
                judged.insert(shared::text(path), check_path(path, captures, &mut account));
            }
        };
        for path in paths.filter_map(|path| path.path.as_deref()) {
            let rewrites = target.is_some_and(|target| target != path);
            add(path, rewrites && captures);
            // On a host with patterns, a plain path becomes a location that ends in a slash (`order::entries`).
            if !rewrites && !contributions.use_regex && !path.ends_with('/') {
                add(&format!("{path}/"), false);
            }
        }
        Self(judged.into_iter().collect())
    }

    /// The verdict on `path`; a path that is not in the list is checked with a budget of its own.
    pub(crate) fn verdict(&self, path: &str) -> PatternVerdict {
        match self.0.binary_search_by(|(known, _)| (**known).cmp(path)) {
            Ok(at) => self.0[at].1.clone(),
            Err(_) => check_path(path, false, &mut Account::default()),
        }
    }
}

fn check_path(path: &str, captures: bool, account: &mut Account) -> PatternVerdict {
    if let Err(spent) = account.admit(Cost::default()) {
        return PatternVerdict::TooMuch(spent.to_string().into());
    }
    let is_plain = fairway_pattern::literal_start(path) == path;
    if is_plain && !captures {
        return PatternVerdict::Usable { start: path.to_ascii_lowercase().into_bytes().into(), steps: 0 };
    }
    match compile(&path_pattern(path), captures) {
        Err(refusal) => {
            account.refused(refusal.work());
            PatternVerdict::Refused(refusal.to_string().into())
        }
        Ok((pattern, more)) => {
            let cost = pattern.cost();
            let both =
                Cost { steps: cost.steps, memory: cost.memory + more.memory, work: cost.work + more.work };
            match account.admit(both) {
                Ok(()) => PatternVerdict::Usable { start: pattern.start().into(), steps: cost.steps },
                Err(why) => PatternVerdict::TooMuch(why.to_string().into()),
            }
        }
    }
}

/// The pattern, and the cost of a search for its captures.
fn compile(pattern: &str, captures: bool) -> Result<(Arc<Pattern>, Cost), Refusal> {
    let compiled = Pattern::shared(pattern, Anchor::Start, true)?;
    let captures_text = match captures {
        true => Finder::shared(pattern, true)?.cost(),
        false => Cost::default(),
    };
    Ok((compiled, captures_text))
}

/// The pattern that nginx reads where ingress-nginx writes `path` between quotes: two backslashes become one
/// (`ngx_conf_read_token`).
pub(crate) fn path_pattern(path: &str) -> Cow<'_, str> {
    match path.contains(r"\\") {
        true => path.replace(r"\\", r"\").into(),
        false => path.into(),
    }
}

/// The rewrite for requests at `path`: `rewrite "(?i)path" target break`.
pub(crate) fn rewrite(path: &str, target: &Arc<str>) -> PathRewrite {
    PathRewrite::Regex { pattern: path_pattern(path).into(), replacement: target.clone(), ignore_case: true }
}

/// A URL as the target of a rewrite.
pub(crate) struct Url<'a> {
    /// `None` keeps that of the request.
    scheme: Option<&'static str>,
    authority: &'a str,
    /// `None` if the authority has an unsupported variable.
    pub(crate) path: Option<&'a str>,
}

/// The target of a rewrite as a URL (nginx `rewrite`: "If a replacement string starts with `http://`, `https://`, or
/// `$scheme`, the processing stops and the redirect is returned to a client").
pub(crate) fn url(target: &str) -> Option<Url<'_>> {
    let schemes = [("http://", Some("http")), ("https://", Some("https")), ("$scheme://", None)];
    let (scheme, rest) =
        schemes.into_iter().find_map(|(start, scheme)| Some((scheme, target.strip_prefix(start)?)))?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let works = is_own_host(authority) || !authority.contains('$');
    Some(Url { scheme, authority, path: works.then_some(path) })
}

fn is_own_host(authority: &str) -> bool {
    matches!(authority, "$host" | "$http_host")
}

/// The redirect for requests at `path`, if the target of the rewrite is a URL.
pub(crate) fn redirect(path: &str, target: &Arc<str>) -> Option<Redirect> {
    let Url { scheme, authority, path: new } = url(target)?;
    let new: Arc<str> = new.unwrap_or_default().into();
    let (host, port) = match authority.rsplit_once(':') {
        _ if is_own_host(authority) => (None, None),
        Some((host, port)) => (Some(host), port.parse().ok()),
        None => (Some(authority), None),
    };
    let usual = scheme.map(|scheme| if scheme == "https" { 443 } else { 80 });
    let path = if has_captures(&new) { rewrite(path, &new) } else { PathRewrite::Full(new) };
    let target = RedirectTarget::Parts {
        scheme: scheme.map(Arc::from),
        host: host.map(Arc::from),
        port: port.or(usual),
        path: Some(path),
        keep_query: true,
    };
    Some(Redirect { status: 302, target })
}

/// Whether the target of a rewrite uses captures.
pub(crate) fn has_captures(target: &str) -> bool {
    target.contains('$')
}

/// Whether a path looks like a regular expression.
pub(crate) fn looks_like_pattern(path: &str) -> bool {
    path.contains(['(', '[', '*', '^', '$', '|', '\\'])
}
