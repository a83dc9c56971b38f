//! Translates the headers in the blocks of a snippet, for each request case, into edits with conditions.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{
    Condition, ConditionTest, ConditionalHeaders, ConditionalResponse, HeaderOperation, HeaderTemplate,
    ResponseContent, Template, TemplatePart,
};

use crate::level::{BlockSettings, WrittenHeader};
use crate::own_fields::is_ingress_nginx_header;
use crate::problem::Problem;
use crate::symbolic_state::{RequestCase, Scope};

/// A header with its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HeaderChange {
    origin: Arc<str>,
    line: u32,
    statuses: Vec<u16>,
    manner: HeaderOperation,
    pub(crate) field: HeaderTemplate,
}

impl HeaderChange {
    fn problem(&self, reason: String) -> Problem {
        Problem { line: self.line, text: self.field.name.to_string(), reason, suggestion: None }
    }
}

/// A request case with the changes to its requests and responses.
#[derive(Clone, Debug, Default)]
pub(crate) struct CaseEdits {
    pub(crate) world: RequestCase,
    /// Number of conditions from the rewrite phase; later ones come from maps, which nginx evaluates when a header
    /// needs them.
    rewrite_conditions: usize,
    /// In nginx's order: headers-more precedes `expires` and `add_header`.
    pub(crate) more_headers: Vec<HeaderChange>,
    pub(crate) adds: Vec<HeaderChange>,
    pub(crate) requests: Vec<HeaderChange>,
}

/// The blocks around a request case, outermost first.
pub(crate) struct EnclosingBlocks<'l> {
    pub(crate) levels: Vec<&'l BlockSettings>,
    /// The `if` blocks, by number.
    pub(crate) blocks: &'l [BlockSettings],
}

impl EnclosingBlocks<'_> {
    /// The edits of a request case. Its headers may split it further.
    pub(crate) fn edits(&self, world: RequestCase, scope: &mut Scope<'_>) -> Result<Vec<CaseEdits>, Problem> {
        let block = world.block.map(|number| &self.blocks[number]);
        let levels = || self.levels.iter().copied().chain(block);
        let header_edits = levels().flat_map(|level| &level.headers_more);
        // Those of a block replace those of all blocks around it.
        let expires = levels().rev().find_map(|level| level.expires.as_ref()).into_iter().flatten();
        let adds = levels().rfind(|level| !level.adds.is_empty());
        let adds = adds.into_iter().flat_map(|level| &level.adds);
        let inputs = levels().flat_map(|level| &level.input_headers);
        let sets = levels().flat_map(|level| &level.request_headers);
        let rewrite_conditions = world.when.len();
        let mut edited = vec![CaseEdits {
            world,
            rewrite_conditions,
            more_headers: Vec::new(),
            adds: Vec::new(),
            requests: Vec::new(),
        }];
        let mut sent = BTreeSet::new();
        let requests = inputs.map(|written| (written, HeaderOperation::Set)).chain(sets.map(|written| {
            let name = written.name.to_ascii_lowercase();
            // nginx sends a header for each `proxy_set_header`, including its own.
            let is_further = is_ingress_nginx_header(&name) || !sent.insert(name);
            (written, if is_further { HeaderOperation::Add } else { HeaderOperation::Set })
        }));
        let requests: Vec<_> = requests.collect();
        for written in header_edits {
            edited =
                apply_headers(edited, written, HeaderOperation::Set, scope, |case| &mut case.more_headers)?;
        }
        for written in expires {
            edited = apply_headers(edited, written, HeaderOperation::Set, scope, |case| &mut case.adds)?;
        }
        for written in adds {
            edited = apply_headers(edited, written, HeaderOperation::Add, scope, |case| &mut case.adds)?;
        }
        for (written, manner) in requests {
            edited = apply_headers(edited, written, manner, scope, |case| &mut case.requests)?;
        }
        Ok(edited)
    }
}

fn apply_headers(
    edited: Vec<CaseEdits>,
    written: &WrittenHeader,
    manner: HeaderOperation,
    scope: &mut Scope<'_>,
    list: impl Fn(&mut CaseEdits) -> &mut Vec<HeaderChange>,
) -> Result<Vec<CaseEdits>, Problem> {
    let problem =
        |reason| Problem { line: written.line, text: written.name.clone(), reason, suggestion: None };
    let mut further = Vec::new();
    for mut of in edited {
        let worlds = std::mem::take(&mut of.world).expand(&written.value, scope).map_err(problem)?;
        if worlds.iter().any(|(_, value)| value.0.contains(&TemplatePart::Path)) {
            let reason = "$uri is decoded, and may bring line breaks into a header; use $request_uri";
            return Err(problem(reason.to_owned()));
        }
        for (world, value) in &worlds {
            scope.spend(&world.when, value).map_err(problem)?;
        }
        let last = worlds.len().saturating_sub(1);
        for (number, (world, value)) in worlds.into_iter().enumerate() {
            let mut divided = if number == last { std::mem::take(&mut of) } else { of.clone() };
            divided.world = world;
            list(&mut divided).push(HeaderChange {
                origin: Arc::clone(&written.origin),
                line: written.line,
                statuses: written.statuses.clone(),
                manner,
                field: HeaderTemplate { name: written.name.as_str().into(), value },
            });
            further.push(divided);
        }
    }
    crate::symbolic_state::check_case_count(further).map_err(problem)
}

/// Request parts that have changed by the time header values are evaluated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangedParts {
    /// Headers, in lower case.
    pub(crate) headers: BTreeSet<String>,
    /// Whether the path has changed.
    pub(crate) path: bool,
    /// Whether the query has changed.
    pub(crate) query: bool,
}

/// The request headers that edits change.
pub(crate) fn changed_parts(edited: &[CaseEdits]) -> ChangedParts {
    let requests = edited.iter().flat_map(|case| &case.requests);
    ChangedParts {
        headers: requests.map(|edit| edit.field.name.to_ascii_lowercase()).collect(),
        ..ChangedParts::default()
    }
}

impl ChangedParts {
    /// Without headers: for values evaluated before headers are written.
    pub(crate) fn without_headers(&self) -> Self {
        Self { headers: BTreeSet::new(), ..self.clone() }
    }

    /// The first changed part in a text that nginx evaluates now.
    fn first_changed(&self, value: &Template) -> Option<String> {
        value.0.iter().find_map(|part| match part {
            TemplatePart::Path if self.path => Some("$uri".to_owned()),
            TemplatePart::Query | TemplatePart::QueryMark | TemplatePart::Argument(_) if self.query => {
                Some("the query".to_owned())
            }
            part => self.changed_header(part),
        })
    }

    /// The first changed header in a text that nginx evaluated before, with the original path and query.
    fn first_changed_before(&self, value: &Template) -> Option<String> {
        value.0.iter().find_map(|part| self.changed_header(part))
    }

    fn changed_header(&self, part: &TemplatePart) -> Option<String> {
        let reads = |name: &str| self.headers.contains(name);
        match part {
            TemplatePart::Header(name) => {
                let name = name.replace('_', "-");
                (is_ingress_nginx_header(&name) || reads(&name)).then(|| format!("the header {name}"))
            }
            TemplatePart::Cookie(_) => reads("cookie").then(|| "a cookie".to_owned()),
            TemplatePart::BasicUser => reads("authorization").then(|| "$remote_user".to_owned()),
            _ => None,
        }
    }
}

/// The edits of all cases with their conditions; without conditions if all cases are equal.
pub(crate) fn conditional_headers<'e>(
    edited: impl Iterator<Item = &'e CaseEdits> + Clone,
    list: impl Fn(&'e CaseEdits) -> &'e [HeaderChange],
    changed: &ChangedParts,
) -> Result<Vec<ConditionalHeaders>, Problem> {
    let mut all = edited.clone().map(&list);
    let first = all.next().unwrap_or_default();
    if all.all(|edits| edits == first) {
        return group_by_directive(first, &[], 0, changed);
    }
    let mut conditional = Vec::new();
    for case in edited {
        conditional.extend(group_by_directive(
            list(case),
            &case.world.when,
            case.rewrite_conditions,
            changed,
        )?);
    }
    Ok(conditional)
}

/// One for each directive.
fn group_by_directive(
    edits: &[HeaderChange],
    when: &[Condition],
    known: usize,
    changed: &ChangedParts,
) -> Result<Vec<ConditionalHeaders>, Problem> {
    let mut groups: Vec<ConditionalHeaders> = Vec::new();
    for edit in edits {
        let (before, now) = when.split_at(known.min(when.len()));
        let before = before.iter().find_map(|condition| changed.first_changed_before(&condition.value));
        let mut now = now.iter().map(|condition| &condition.value).chain([&edit.field.value]);
        if let Some(name) = before.or_else(|| now.find_map(|value| changed.first_changed(value))) {
            return Err(edit.problem(format!("it reads {name}, which is another one by then")));
        }
        match groups.last_mut() {
            Some(last)
                if last.origin == edit.origin
                    && last.operation == edit.manner
                    && last.statuses == edit.statuses =>
            {
                last.fields.push(edit.field.clone());
            }
            _ => groups.push(ConditionalHeaders {
                origin: Arc::clone(&edit.origin),
                when: when.to_vec(),
                statuses: edit.statuses.clone(),
                operation: edit.manner,
                fields: vec![edit.field.clone()],
            }),
        }
    }
    Ok(groups)
}

/// Rejects an edit of a request that reads what an earlier one has written: nginx sees the new value of some headers,
/// and the old one of others.
pub(crate) fn check_order(edited: &[CaseEdits]) -> Result<(), Problem> {
    for case in edited {
        let mut written = ChangedParts::default();
        for edit in &case.requests {
            if let Some(name) = written.first_changed_before(&edit.field.value) {
                return Err(edit.problem(format!("it reads {name}, which a line before it changes")));
            }
            written.headers.insert(edit.field.name.to_ascii_lowercase());
        }
        let maps = case.world.when.get(case.rewrite_conditions..).unwrap_or_default();
        let read = maps.iter().find_map(|condition| written.first_changed_before(&condition.value));
        if let (Some(name), Some(edit)) = (read, case.requests.first()) {
            return Err(edit.problem(format!("a map reads {name}, which is changed")));
        }
    }
    Ok(())
}

/// Rejects requests with text that is too long for the conditions of these headers, because it is unknown which of
/// the headers apply.
pub(crate) fn reject_too_long<'c>(
    chosen: impl Iterator<Item = &'c ConditionalHeaders>,
    of_host: bool,
) -> Vec<ConditionalResponse> {
    let mut values: Vec<&Template> = Vec::new();
    for ConditionalHeaders { when, .. } in chosen {
        let patterns =
            when.iter().filter(|condition| matches!(condition.test, ConditionTest::Pattern { .. }));
        for Condition { value, .. } in patterns {
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    let respond = |value: &Template| ConditionalResponse {
        origin: "text that is too long for the conditions of a snippet".into(),
        when: vec![Condition { value: value.clone(), test: ConditionTest::TooLong, negated: false }],
        status: 431,
        content: ResponseContent::Status,
        host_headers: of_host.then(Vec::new),
        max_body: None,
    };
    values.into_iter().map(respond).collect()
}

/// What the headers of a snippet depend on and change; annotations must not interfere with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderUses {
    /// Response headers that it sets, adds or removes, in lower case.
    pub responses: BTreeSet<String>,
    /// Request headers that it sets or removes.
    pub requests: BTreeSet<String>,
    /// Among these, headers that change before authentication (`more_set_input_headers`).
    pub inputs: BTreeSet<String>,
    /// Request headers on which others depend, or which are part of others.
    pub reads: BTreeSet<String>,
    /// Whether anything depends on how the client reached the proxy.
    pub link: bool,
    /// Whether headers depend on the path, which a rewrite changes.
    pub path: bool,
    /// Whether headers depend on the query.
    pub query: bool,
}

impl HeaderUses {
    pub(crate) fn from_edits(edited: &[CaseEdits], levels: &[&BlockSettings]) -> Self {
        let names = |list: &dyn Fn(&CaseEdits) -> Vec<HeaderChange>| {
            edited.iter().flat_map(list).map(|edit| edit.field.name.to_ascii_lowercase()).collect()
        };
        let mut uses = Self {
            responses: names(&|case| [&*case.more_headers, &case.adds].concat()),
            requests: names(&|case| case.requests.clone()),
            ..Self::default()
        };
        let inputs = levels.iter().flat_map(|level| &level.input_headers);
        uses.inputs = inputs.map(|written| written.name.to_ascii_lowercase()).collect();
        for case in edited {
            let maps = case.world.when.get(case.rewrite_conditions..).unwrap_or_default().iter();
            uses.path |=
                maps.flat_map(|condition| &condition.value.0).any(|part| *part == TemplatePart::Path);
            let edits = case
                .more_headers
                .iter()
                .chain(&case.adds)
                .chain(&case.requests)
                .map(|edit| &edit.field.value);
            let conditions = case.world.when.iter().map(|condition| &condition.value);
            for part in edits.chain(conditions).flat_map(|value| &value.0) {
                uses.query |=
                    matches!(part, TemplatePart::Query | TemplatePart::QueryMark | TemplatePart::Argument(_));
                uses.reads.extend(match part {
                    TemplatePart::Header(name) => Some(name.replace('_', "-")),
                    TemplatePart::Cookie(_) => Some("cookie".to_owned()),
                    TemplatePart::BasicUser => Some("authorization".to_owned()),
                    _ => None,
                });
            }
        }
        uses
    }
}
