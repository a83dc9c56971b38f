//! The headers that the blocks of a snippet ask for, in each of its worlds, as edits with conditions.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{ChosenFields, Condition, FieldTemplate, Manner, Template, TemplatePart};

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

/// A world with what its requests and their answers get.
#[derive(Clone, Debug)]
pub(crate) struct Edited {
    pub(crate) world: World,
    /// In the order of nginx: headers-more comes before `add_header`.
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
        let adds = levels().rfind(|level| !level.adds.is_empty());
        let adds = adds.into_iter().flat_map(|level| &level.adds);
        let inputs = levels().flat_map(|level| &level.inputs);
        let sets = levels().flat_map(|level| &level.sets);
        let mut edited = vec![Edited { world, more: Vec::new(), adds: Vec::new(), requests: Vec::new() }];
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
    for of in edited {
        let worlds = of.world.clone().expand(&written.value, scope).map_err(problem)?;
        for (world, value) in worlds {
            let mut of = Edited { world, ..of.clone() };
            list(&mut of).push(Edit {
                origin: Arc::clone(&written.origin),
                line: written.line,
                statuses: written.statuses.clone(),
                manner,
                field: FieldTemplate { name: written.name.as_str().into(), value },
            });
            further.push(of);
        }
    }
    crate::world::bounded(further).map_err(problem)
}

/// The edits of all worlds with their conditions; without any where all have the same.
///
/// `changed` are the fields of requests that are other ones by the time at which the conditions and values are looked at.
pub(crate) fn chosen<'e>(
    edited: impl Iterator<Item = (&'e World, &'e [Edit])> + Clone,
    changed: &BTreeSet<String>,
) -> Result<Vec<ChosenFields>, Problem> {
    let mut all = edited.clone().map(|(_, edits)| edits);
    let first = all.next().unwrap_or_default();
    if all.all(|edits| edits == first) {
        return grouped(first, &[], changed);
    }
    let mut chosen = Vec::new();
    for (world, edits) in edited {
        chosen.extend(grouped(edits, &world.when, changed)?);
    }
    Ok(chosen)
}

/// One for each directive.
fn grouped(
    edits: &[Edit],
    when: &[Condition],
    changed: &BTreeSet<String>,
) -> Result<Vec<ChosenFields>, Problem> {
    let mut groups: Vec<ChosenFields> = Vec::new();
    for edit in edits {
        let read = when.iter().map(|condition| &condition.value).chain([&edit.field.value]);
        if let Some(name) = read.filter_map(|value| reads(value, changed)).next() {
            let reason = format!("it reads {name}, which is another one by then");
            return Err(Problem {
                line: edit.line,
                text: edit.field.name.to_string(),
                reason,
                suggestion: None,
            });
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

/// The first of these fields that a text takes from a request.
fn reads(value: &Template, fields: &BTreeSet<String>) -> Option<String> {
    value.0.iter().find_map(|part| match part {
        TemplatePart::Field(name) => {
            let name = name.replace('_', "-");
            (is_own(&name) || fields.contains(&name)).then(|| format!("the header {name}"))
        }
        TemplatePart::Cookie(_) => fields.contains("cookie").then(|| "a cookie".to_owned()),
        TemplatePart::Path => fields.contains("$uri").then(|| "$uri".to_owned()),
        _ => None,
    })
}

/// The fields of requests that edits change, in lower case.
pub(crate) fn changed(edited: &[Edited]) -> BTreeSet<String> {
    let requests = edited.iter().flat_map(|of| &of.requests);
    requests.map(|edit| edit.field.name.to_ascii_lowercase()).collect()
}
