//! The headers that the blocks of a snippet ask for, in each of its worlds, as edits with conditions.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{
    ChosenFields, Condition, Content, FieldTemplate, Manner, Respond, Template, TemplatePart, Test,
};

use crate::level::{Level, Written};
use crate::own_fields::is_own;
use crate::problem::Problem;
use crate::world::{Scope, World};

/// One field with its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Edit {
    origin: Arc<str>,
    line: u32,
    statuses: Vec<u16>,
    manner: Manner,
    pub(crate) field: FieldTemplate,
}

impl Edit {
    fn problem(&self, reason: String) -> Problem {
        Problem { line: self.line, text: self.field.name.to_string(), reason, suggestion: None }
    }
}

/// A world with what its requests and their answers get.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edited {
    pub(crate) world: World,
    /// Conditions of the rewrite phase; those behind them are of maps, which nginx looks up where a header needs them.
    known: usize,
    /// In the order of nginx: headers-more comes before `expires` and `add_header`.
    pub(crate) more: Vec<Edit>,
    pub(crate) adds: Vec<Edit>,
    pub(crate) requests: Vec<Edit>,
}

/// What the blocks around a world ask for, from the outermost.
pub(crate) struct Around<'l> {
    pub(crate) levels: Vec<&'l Level>,
    /// Those of `if` blocks, by their numbers.
    pub(crate) blocks: &'l [Level],
}

impl Around<'_> {
    /// The edits of a world. Its headers may divide it further.
    pub(crate) fn edits(&self, world: World, scope: &mut Scope<'_>) -> Result<Vec<Edited>, Problem> {
        let block = world.block.map(|number| &self.blocks[number]);
        let levels = || self.levels.iter().copied().chain(block);
        let more = levels().flat_map(|level| &level.more);
        // Those of a block replace all of the blocks around it.
        let expires = levels().rev().find_map(|level| level.expires.as_ref()).into_iter().flatten();
        let adds = levels().rfind(|level| !level.adds.is_empty());
        let adds = adds.into_iter().flat_map(|level| &level.adds);
        let inputs = levels().flat_map(|level| &level.inputs);
        let sets = levels().flat_map(|level| &level.sets);
        let known = world.when.len();
        let mut edited =
            vec![Edited { world, known, more: Vec::new(), adds: Vec::new(), requests: Vec::new() }];
        let mut sent = BTreeSet::new();
        let requests = inputs.map(|written| (written, Manner::Set)).chain(sets.map(|written| {
            let name = written.name.to_ascii_lowercase();
            // nginx sends a field for each `proxy_set_header`, its own included.
            let is_further = is_own(&name) || !sent.insert(name);
            (written, if is_further { Manner::Add } else { Manner::Set })
        }));
        let requests: Vec<_> = requests.collect();
        for written in more {
            edited = with(edited, written, Manner::Set, scope, |of| &mut of.more)?;
        }
        for written in expires {
            edited = with(edited, written, Manner::Set, scope, |of| &mut of.adds)?;
        }
        for written in adds {
            edited = with(edited, written, Manner::Add, scope, |of| &mut of.adds)?;
        }
        for (written, manner) in requests {
            edited = with(edited, written, manner, scope, |of| &mut of.requests)?;
        }
        Ok(edited)
    }
}

fn with(
    edited: Vec<Edited>,
    written: &Written,
    manner: Manner,
    scope: &mut Scope<'_>,
    list: impl Fn(&mut Edited) -> &mut Vec<Edit>,
) -> Result<Vec<Edited>, Problem> {
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
            list(&mut divided).push(Edit {
                origin: Arc::clone(&written.origin),
                line: written.line,
                statuses: written.statuses.clone(),
                manner,
                field: FieldTemplate { name: written.name.as_str().into(), value },
            });
            further.push(divided);
        }
    }
    crate::world::bounded(further).map_err(problem)
}

/// Parts of requests that are other ones by the time at which the values of headers are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    /// Fields, in lower case.
    pub(crate) fields: BTreeSet<String>,
    /// Whether the path is another one.
    pub(crate) path: bool,
    /// Whether the query is.
    pub(crate) query: bool,
}

/// The fields of requests that edits change.
pub(crate) fn changed(edited: &[Edited]) -> Changed {
    let requests = edited.iter().flat_map(|of| &of.requests);
    Changed {
        fields: requests.map(|edit| edit.field.name.to_ascii_lowercase()).collect(),
        ..Changed::default()
    }
}

impl Changed {
    /// Without the fields: for what is made of a request before they are written.
    pub(crate) fn before_fields(&self) -> Self {
        Self { fields: BTreeSet::new(), ..self.clone() }
    }

    /// The first such part in a text that nginx makes now.
    fn read(&self, value: &Template) -> Option<String> {
        value.0.iter().find_map(|part| match part {
            TemplatePart::Path if self.path => Some("$uri".to_owned()),
            TemplatePart::Query | TemplatePart::QueryMark | TemplatePart::Argument(_) if self.query => {
                Some("the query".to_owned())
            }
            part => self.read_field(part),
        })
    }

    /// The first such field in a text that nginx has made before, of path and query as they were.
    fn read_before(&self, value: &Template) -> Option<String> {
        value.0.iter().find_map(|part| self.read_field(part))
    }

    fn read_field(&self, part: &TemplatePart) -> Option<String> {
        let reads = |name: &str| self.fields.contains(name);
        match part {
            TemplatePart::Field(name) => {
                let name = name.replace('_', "-");
                (is_own(&name) || reads(&name)).then(|| format!("the header {name}"))
            }
            TemplatePart::Cookie(_) => reads("cookie").then(|| "a cookie".to_owned()),
            TemplatePart::BasicUser => reads("authorization").then(|| "$remote_user".to_owned()),
            _ => None,
        }
    }
}

/// The edits of all worlds with their conditions; without any where all have the same.
pub(crate) fn chosen<'e>(
    edited: impl Iterator<Item = &'e Edited> + Clone,
    list: impl Fn(&'e Edited) -> &'e [Edit],
    changed: &Changed,
) -> Result<Vec<ChosenFields>, Problem> {
    let mut all = edited.clone().map(&list);
    let first = all.next().unwrap_or_default();
    if all.all(|edits| edits == first) {
        return grouped(first, &[], 0, changed);
    }
    let mut chosen = Vec::new();
    for of in edited {
        chosen.extend(grouped(list(of), &of.world.when, of.known, changed)?);
    }
    Ok(chosen)
}

/// One for each directive.
fn grouped(
    edits: &[Edit],
    when: &[Condition],
    known: usize,
    changed: &Changed,
) -> Result<Vec<ChosenFields>, Problem> {
    let mut groups: Vec<ChosenFields> = Vec::new();
    for edit in edits {
        let (before, now) = when.split_at(known.min(when.len()));
        let before = before.iter().find_map(|condition| changed.read_before(&condition.value));
        let mut now = now.iter().map(|condition| &condition.value).chain([&edit.field.value]);
        if let Some(name) = before.or_else(|| now.find_map(|value| changed.read(value))) {
            return Err(edit.problem(format!("it reads {name}, which is another one by then")));
        }
        match groups.last_mut() {
            Some(last)
                if last.origin == edit.origin
                    && last.manner == edit.manner
                    && last.statuses == edit.statuses =>
            {
                last.fields.push(edit.field.clone());
            }
            _ => groups.push(ChosenFields {
                origin: Arc::clone(&edit.origin),
                when: when.to_vec(),
                statuses: edit.statuses.clone(),
                manner: edit.manner,
                fields: vec![edit.field.clone()],
            }),
        }
    }
    Ok(groups)
}

/// Refuses an edit of a request that reads what one before it has written: nginx reads some of these fields as they were, and others not.
pub(crate) fn check_order(edited: &[Edited]) -> Result<(), Problem> {
    for of in edited {
        let mut written = Changed::default();
        for edit in &of.requests {
            if let Some(name) = written.read_before(&edit.field.value) {
                return Err(edit.problem(format!("it reads {name}, which a line before it changes")));
            }
            written.fields.insert(edit.field.name.to_ascii_lowercase());
        }
        let maps = of.world.when.get(of.known..).unwrap_or_default();
        let read = maps.iter().find_map(|condition| written.read_before(&condition.value));
        if let (Some(name), Some(edit)) = (read, of.requests.first()) {
            return Err(edit.problem(format!("a map reads {name}, which is changed")));
        }
    }
    Ok(())
}

/// Answers requests that have a text too long for the conditions by which these fields are chosen: it is not known which they get.
pub(crate) fn too_long<'c>(chosen: impl Iterator<Item = &'c ChosenFields>, of_host: bool) -> Vec<Respond> {
    let mut values: Vec<&Template> = Vec::new();
    for ChosenFields { when, .. } in chosen {
        let patterns = when.iter().filter(|condition| matches!(condition.test, Test::Pattern { .. }));
        for Condition { value, .. } in patterns {
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    let respond = |value: &Template| Respond {
        origin: "text that is too long for the conditions of a snippet".into(),
        when: vec![Condition { value: value.clone(), test: Test::TooLong, negated: false }],
        status: 431,
        content: Content::Status,
        of_host: of_host.then(Vec::new),
        max_body: None,
    };
    values.into_iter().map(respond).collect()
}

/// What the headers of a snippet have to do with: other annotations must change nothing of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Headers of responses that it sets, adds or removes, in lower case.
    pub answers: BTreeSet<String>,
    /// Headers of requests that it sets or removes.
    pub requests: BTreeSet<String>,
    /// Of these, those that change before anybody is asked who the client is (`more_set_input_headers`).
    pub inputs: BTreeSet<String>,
    /// Headers of requests that decide about others, or are a part of them.
    pub reads: BTreeSet<String>,
    /// Whether anything depends on how the client reached the proxy.
    pub link: bool,
    /// Whether headers depend on the path, which a rewrite changes.
    pub path: bool,
    /// Whether they depend on the query.
    pub query: bool,
}

impl Uses {
    pub(crate) fn of(edited: &[Edited], levels: &[&Level]) -> Self {
        let names = |list: &dyn Fn(&Edited) -> Vec<Edit>| {
            edited.iter().flat_map(list).map(|edit| edit.field.name.to_ascii_lowercase()).collect()
        };
        let mut uses = Self {
            answers: names(&|of| [&*of.more, &of.adds].concat()),
            requests: names(&|of| of.requests.clone()),
            ..Self::default()
        };
        let inputs = levels.iter().flat_map(|level| &level.inputs);
        uses.inputs = inputs.map(|written| written.name.to_ascii_lowercase()).collect();
        for of in edited {
            let maps = of.world.when.get(of.known..).unwrap_or_default().iter();
            uses.path |=
                maps.flat_map(|condition| &condition.value.0).any(|part| *part == TemplatePart::Path);
            let edits = of.more.iter().chain(&of.adds).chain(&of.requests).map(|edit| &edit.field.value);
            let conditions = of.world.when.iter().map(|condition| &condition.value);
            for part in edits.chain(conditions).flat_map(|value| &value.0) {
                uses.query |=
                    matches!(part, TemplatePart::Query | TemplatePart::QueryMark | TemplatePart::Argument(_));
                uses.reads.extend(match part {
                    TemplatePart::Field(name) => Some(name.replace('_', "-")),
                    TemplatePart::Cookie(_) => Some("cookie".to_owned()),
                    TemplatePart::BasicUser => Some("authorization".to_owned()),
                    _ => None,
                });
            }
        }
        uses
    }
}
