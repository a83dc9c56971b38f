//! Evaluates the directives of nginx's rewrite phase in order: `set`, `if`, `return`, `rewrite`, `break`.

use fairway_model::{Condition, ConditionTest, PathRewrite, ResponseContent, Template, TemplatePart};

use crate::own_variables;
use crate::problem::Problem;
use crate::symbolic_state::{CaseEnd, RequestCase, Scope, check_case_count};
use crate::syntax::Directive;
use crate::value::{EvaluationStage, WordPart, fixed_text, split_word};

/// Statuses with an nginx error page; others have no body.
const STATUSES_WITH_PAGE: &[u16] = &[
    301, 302, 303, 307, 308, 400, 401, 402, 403, 404, 405, 406, 408, 409, 410, 411, 412, 413, 414, 415, 416,
    421, 429, 500, 501, 502, 503, 504, 505, 507,
];

/// Whether a directive belongs to the rewrite phase.
pub(crate) fn is_rewrite_directive(name: &str) -> bool {
    matches!(name, "set" | "if" | "return" | "rewrite" | "break")
}

/// Evaluates the directives of a snippet. Appends its `if` blocks to `blocks` as they occur.
pub(crate) fn run<'d>(
    directives: &'d [Directive],
    worlds: Vec<RequestCase>,
    scope: &mut Scope<'_>,
    blocks: &mut Vec<&'d [Directive]>,
    content_type: &str,
) -> Result<Vec<RequestCase>, Problem> {
    run_block(directives, worlds, scope, blocks, content_type, false)
}

fn run_block<'d>(
    directives: &'d [Directive],
    worlds: Vec<RequestCase>,
    scope: &mut Scope<'_>,
    blocks: &mut Vec<&'d [Directive]>,
    content_type: &str,
    is_nested: bool,
) -> Result<Vec<RequestCase>, Problem> {
    let mut worlds = worlds;
    for directive in directives.iter().filter(|it| is_rewrite_directive(&it.name)) {
        let (ended, running): (Vec<_>, Vec<_>) = worlds.into_iter().partition(|world| world.end.is_some());
        worlds = ended;
        let problem = |reason: String| Problem::new(directive.line, &directive.text(), reason);
        for world in running {
            scope.spend(&world.when, &Template::default()).map_err(problem)?;
            let step = match directive.name.as_str() {
                "set" => run_set(directive, world, scope),
                "return" => run_return(directive, world, scope, content_type),
                "rewrite" => run_rewrite(directive, world, scope),
                "break" => Ok(vec![RequestCase { end: Some(CaseEnd::Continues), ..world }]),
                _ if is_nested => Err("nginx takes no if in an if".to_owned()),
                _ => {
                    let block = directive.block.as_deref().unwrap_or_default();
                    let (holds, fails) = split_by_if(directive, world, scope).map_err(problem)?;
                    worlds.extend(fails);
                    if holds.is_empty() {
                        continue;
                    }
                    let number =
                        blocks.iter().position(|known| std::ptr::eq(*known, block)).unwrap_or_else(|| {
                            blocks.push(block);
                            blocks.len() - 1
                        });
                    let within =
                        holds.into_iter().map(|world| RequestCase { block: Some(number), ..world }).collect();
                    worlds.extend(run_block(block, within, scope, blocks, content_type, true)?);
                    continue;
                }
            };
            worlds.extend(step.map_err(problem)?);
        }
        worlds = check_case_count(worlds).map_err(problem)?;
    }
    Ok(worlds)
}

fn run_set(
    directive: &Directive,
    world: RequestCase,
    scope: &mut Scope<'_>,
) -> Result<Vec<RequestCase>, String> {
    let [name, value] = &*directive.words else { return Err("it needs a variable and a value".to_owned()) };
    let Some(name) = name.strip_prefix('$') else { return Err("the first word is no variable".to_owned()) };
    let name = name.to_ascii_lowercase();
    if own_variables::is_builtin_variable(&name) || scope.maps.get(&name).is_some() {
        return Err(format!("${name} is set already, and what depends on it is not known here"));
    }
    let valued = world.expand(value, scope)?.into_iter().map(|(mut world, value)| {
        world.variables.insert(name.clone(), value);
        world
    });
    Ok(valued.collect())
}

/// Splits a request case by an `if` into the cases in which it holds and the others.
fn split_by_if(
    directive: &Directive,
    world: RequestCase,
    scope: &mut Scope<'_>,
) -> Result<(Vec<RequestCase>, Vec<RequestCase>), String> {
    let words = between_parentheses(&directive.words).ok_or("its condition is not between ( and )")?;
    let (left, test, negated) = match &*words {
        [file, _] if file.starts_with('-') || file.starts_with("!-") => {
            return Err("there are no files to test".to_owned());
        }
        [value] => (value, ConditionTest::Truth, false),
        [value, operator, text] => match operator.as_str() {
            "=" | "!=" => {
                let mut same = world.clone().expand(text, scope)?;
                let fixed = same
                    .pop()
                    .filter(|_| same.is_empty())
                    .and_then(|(_, it)| fixed_text(&it).map(str::to_owned));
                let text = fixed.ok_or("it compares with a variable, and only a text works there")?;
                (value, ConditionTest::Equal(text.into()), operator == "!=")
            }
            "~" | "~*" | "!~" | "!~*" => {
                let pattern = ConditionTest::Pattern {
                    pattern: text.as_str().into(),
                    ignore_case: operator.ends_with('*'),
                };
                (value, pattern, operator.starts_with('!'))
            }
            _ => return Err(format!("\"{operator}\" compares nothing")),
        },
        _ => return Err("it is no condition of nginx".to_owned()),
    };
    // nginx allows no braces here.
    if left.starts_with("${") || !matches!(&*split_word(left)?, [WordPart::Variable(_)]) {
        return Err("the first word of the condition is no variable".to_owned());
    }
    scope.admit(&test)?;
    let (mut holds, mut fails) = (Vec::new(), Vec::new());
    for (world, value) in world.expand(left, scope)? {
        if value.0.contains(&TemplatePart::RequestId) {
            return Err("the request has no $req_id yet".to_owned());
        }
        let (yes, no) = world.split(&Condition { value, test: test.clone(), negated });
        holds.extend(yes);
        fails.extend(no);
    }
    Ok((holds, fails))
}

/// The words of a condition without its parentheses, which may be separate words.
fn between_parentheses(words: &[String]) -> Option<Vec<String>> {
    let mut words = words.to_vec();
    let first = words.first_mut()?;
    *first = first.strip_prefix('(')?.to_owned();
    let last = words.last_mut()?;
    *last = last.strip_suffix(')')?.to_owned();
    if words.first()?.is_empty() {
        words.remove(0);
    }
    if words.len() > 1 && words.last()?.is_empty() {
        words.pop();
    }
    (!words.is_empty()).then_some(words)
}

fn run_return(
    directive: &Directive,
    world: RequestCase,
    scope: &mut Scope<'_>,
    content_type: &str,
) -> Result<Vec<RequestCase>, String> {
    let (status, text) = match &*directive.words {
        [url] if ["http://", "https://", "$scheme"].iter().any(|start| url.starts_with(start)) => {
            (302, Some(url))
        }
        [status] => (parse_status(status)?, None),
        [status, text] => (parse_status(status)?, Some(text)),
        _ => return Err("it needs a status, a text or a URL".to_owned()),
    };
    match status {
        444 => return Err("connections are not closed without a response".to_owned()),
        304 | 408 | 494..=499 => return Err(format!("nginx answers {status} in ways of its own")),
        _ => {}
    }
    let answered = |world: RequestCase, content| RequestCase {
        end: Some(CaseEnd::Answered { origin: directive.origin(), status, content }),
        ..world
    };
    let Some(text) = text else {
        let content = match status {
            ..400 => ResponseContent::Text(Template::default(), content_type.into()),
            page if STATUSES_WITH_PAGE.contains(&page) => ResponseContent::Status,
            _ => ResponseContent::Empty,
        };
        return match status {
            301 | 302 | 303 | 307 | 308 => Err("a redirect needs a URL".to_owned()),
            _ => Ok(vec![answered(world, content)]),
        };
    };
    let is_redirect = matches!(status, 301 | 302 | 303 | 307 | 308);
    if !is_redirect && (status == 204 || text.is_empty() && status != 200) {
        return Err("nginx sends no Content-Type with such a text; leave the text out".to_owned());
    }
    let worlds = world.expand(text, scope)?.into_iter().map(|(world, value)| {
        if value.0.contains(&TemplatePart::RequestId) {
            return Err("the request has no $req_id yet".to_owned());
        }
        let content = match is_redirect {
            true => ResponseContent::Location(check_location(value)?),
            false => ResponseContent::Text(value, content_type.into()),
        };
        Ok(answered(world, content))
    });
    worlds.collect()
}

fn parse_status(text: &str) -> Result<u16, String> {
    let code = text.parse().ok().filter(|code| (200..=599).contains(code));
    code.ok_or_else(|| "its status is none from 200 to 599".to_owned())
}

/// Checks a `Location`; a decoded path in it could contain line breaks and spaces.
fn check_location(value: Template) -> Result<Template, String> {
    let decoded = [TemplatePart::Path];
    match value.0.iter().any(|part| decoded.contains(part)) {
        true => Err("$uri is decoded, and may bring line breaks into Location; use $request_uri".to_owned()),
        false => Ok(value),
    }
}

fn run_rewrite(
    directive: &Directive,
    world: RequestCase,
    scope: &mut Scope<'_>,
) -> Result<Vec<RequestCase>, String> {
    let (pattern, target, flag) = match &*directive.words {
        [pattern, target, flag] => (pattern, target, flag.as_str()),
        [_, target] if is_url(target) => (&directive.words[0], target, "redirect"),
        [_, _] => return Err("without break, permanent or redirect the location is chosen anew".to_owned()),
        _ => return Err("it needs a pattern and a replacement".to_owned()),
    };
    let (pattern, ignore_case) = match pattern.strip_prefix("(?i)") {
        Some(pattern) => (pattern, true),
        None => (pattern.as_str(), false),
    };
    let test = ConditionTest::Pattern { pattern: pattern.into(), ignore_case };
    scope.admit(&test)?;
    let condition = Condition { value: Template(vec![TemplatePart::Path]), test, negated: false };
    let end = match flag {
        "permanent" | "redirect" => {
            let status = if flag == "permanent" { 301 } else { 302 };
            let content = redirect_content(pattern, ignore_case, target, &world, scope)?;
            CaseEnd::Answered { origin: directive.origin(), status, content }
        }
        "break" if is_url(target) => return Err("a URL needs permanent or redirect".to_owned()),
        "break" if scope.stage == EvaluationStage::Host => {
            return Err("the location would be chosen by the new path".to_owned());
        }
        "break" => CaseEnd::Rewritten(path_rewrite(pattern, ignore_case, target)?),
        "last" => {
            return Err(
                "the location is chosen anew; use rewrite-target, or break where it is the same".to_owned()
            );
        }
        _ => return Err(format!("{flag} is no flag of rewrite")),
    };
    let (found, other) = world.split(&condition);
    let found = found.map(|world| RequestCase { end: Some(end), ..world });
    Ok(found.into_iter().chain(other).collect())
}

fn is_url(target: &str) -> bool {
    ["http://", "https://", "$scheme"].iter().any(|start| target.starts_with(start))
}

/// The target of a rewrite that redirects.
fn redirect_content(
    pattern: &str,
    ignore_case: bool,
    target: &str,
    world: &RequestCase,
    scope: &mut Scope<'_>,
) -> Result<ResponseContent, String> {
    let parts = split_word(target)?;
    if !target.starts_with('/') && !is_url(target) && !matches!(parts.first(), Some(WordPart::Capture(_))) {
        return Err("its replacement is neither a path nor a URL".to_owned());
    }
    let variables = parts.iter().any(|piece| matches!(piece, WordPart::Variable(_)));
    let captures = parts.iter().any(|piece| matches!(piece, WordPart::Capture(_)));
    if !variables {
        let anchored = anchor_pattern(pattern);
        return Ok(ResponseContent::Rewritten {
            pattern: anchored.into(),
            ignore_case,
            replacement: target.into(),
        });
    }
    let Some(whole) = target.strip_suffix('?').filter(|_| !captures && !target.contains("%")) else {
        return Err("its replacement has variables, which works with \"?\" at its end and without $1 to $9"
            .to_owned());
    };
    let mut values = world.clone().expand(whole, scope)?;
    match values.pop().filter(|_| values.is_empty()) {
        Some((_, value)) => Ok(ResponseContent::UnescapedLocation(check_location(value)?)),
        None => Err("its replacement depends on a map".to_owned()),
    }
}

/// Anchors a pattern for the capture search, which starts at the beginning of the path.
fn anchor_pattern(pattern: &str) -> String {
    match pattern.strip_prefix('^') {
        Some(rest) if !has_alternatives(rest) => rest.to_owned(),
        _ => format!("(?s:.*?)(?:{pattern})"),
    }
}

/// Whether there is a top-level `|`.
fn has_alternatives(pattern: &str) -> bool {
    let (mut depth, mut class, mut escaped) = (0_usize, false, false);
    for c in pattern.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ']' => class = false,
            _ if class => {}
            '[' => class = true,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

fn path_rewrite(pattern: &str, ignore_case: bool, target: &str) -> Result<PathRewrite, String> {
    if !target.starts_with('/') {
        return Err("its replacement is no path".to_owned());
    }
    if split_word(target)?.iter().any(|piece| matches!(piece, WordPart::Variable(_))) {
        return Err("its replacement has variables, and only $1 to $9 work".to_owned());
    }
    let Some(rest) = pattern.strip_prefix('^').filter(|rest| !has_alternatives(rest)) else {
        return Err("its pattern does not begin with ^, or has alternatives".to_owned());
    };
    Ok(PathRewrite::Regex { pattern: rest.into(), replacement: target.into(), ignore_case })
}
