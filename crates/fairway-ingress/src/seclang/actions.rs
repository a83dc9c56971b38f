//! Actions of rules: parses a list of actions, refuses unknown ones, and writes the list unchanged.

use super::lines::Line;
use super::problem::Problem;

/// A parsed list of actions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Actions {
    /// As sent to the firewall.
    pub(super) text: String,
    pub(super) id: Option<u32>,
    /// Whether the following rule belongs to this one.
    pub(super) chains: bool,
}

/// Actions without a value.
const PLAIN_ACTIONS: [&str; 12] = [
    "allow",
    "auditlog",
    "block",
    "capture",
    "chain",
    "deny",
    "drop",
    "log",
    "multimatch",
    "noauditlog",
    "nolog",
    "pass",
];
/// Actions with a text value.
const TEXT_ACTIONS: [&str; 12] = [
    "accuracy",
    "allow",
    "logdata",
    "maturity",
    "msg",
    "redirect",
    "rev",
    "setvar",
    "severity",
    "skipafter",
    "tag",
    "ver",
];
/// Refused actions and what they do.
const REFUSED_ACTIONS: [(&str, &str); 9] = [
    ("append", "it changes responses, which Coraza does not"),
    ("deprecatevar", "no collection is kept between requests"),
    ("exec", "it runs a program"),
    ("expirevar", "no collection is kept between requests"),
    ("initcol", "no collection is kept between requests"),
    ("prepend", "it changes responses, which Coraza does not"),
    ("proxy", "it chooses another backend"),
    ("setenv", "it changes the environment of the process"),
    ("xmlns", "XPath with namespaces is not read"),
];
const TRANSFORMATIONS: [&str; 34] = [
    "base64decode",
    "base64decodeext",
    "base64encode",
    "cmdline",
    "compresswhitespace",
    "cssdecode",
    "escapeseqdecode",
    "hexdecode",
    "hexencode",
    "htmlentitydecode",
    "jsdecode",
    "length",
    "lowercase",
    "md5",
    "none",
    "normalisepath",
    "normalisepathwin",
    "normalizepath",
    "normalizepathwin",
    "removecomments",
    "removecommentschar",
    "removenulls",
    "removewhitespace",
    "replacecomments",
    "replacenulls",
    "sha1",
    "trim",
    "trimleft",
    "trimright",
    "uppercase",
    "urldecode",
    "urldecodeuni",
    "urlencode",
    "utf8tounicode",
];
/// Options of `ctl`.
const CTL_OPTIONS: [&str; 17] = [
    "auditengine",
    "auditlogparts",
    "forcerequestbodyvariable",
    "forceresponsebodyvariable",
    "requestbodyaccess",
    "requestbodylimit",
    "requestbodyprocessor",
    "responsebodyaccess",
    "responsebodylimit",
    "responsebodyprocessor",
    "ruleengine",
    "ruleremovebyid",
    "ruleremovebymsg",
    "ruleremovebytag",
    "ruleremovetargetbyid",
    "ruleremovetargetbymsg",
    "ruleremovetargetbytag",
];

/// Parses a list, which is written in double quotes.
pub(super) fn read(line: &Line, list: &str) -> Result<Actions, Problem> {
    let mut actions = Actions::default();
    for item in split(list) {
        let item = item.trim();
        let wrong = |reason: String| Err(Problem::new(line.number, item, reason));
        let (name, value) = match item.split_once(':') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (item, None),
        };
        let lower = name.to_ascii_lowercase();
        let Some(bare) = value.map_or(Some(None), |value| unquoted(value).map(Some)) else {
            return wrong("a quote stands inside its value, or is not closed".to_owned());
        };
        if let Err(reason) = accept(&lower, bare, &mut actions) {
            return wrong(reason);
        }
        if !actions.text.is_empty() {
            actions.text.push(',');
        }
        actions.text.push_str(name);
        if let Some(value) = value {
            actions.text.extend([":", value]);
        }
    }
    Ok(actions)
}

/// Splits at commas outside of single quotes. As in Coraza, a character after a backslash has no meaning.
fn split(list: &str) -> Vec<&str> {
    let (mut parts, mut from, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, byte) in list.bytes().enumerate() {
        let is_plain = !escaped;
        escaped = byte == b'\\';
        match byte {
            b'\'' if is_plain => quoted = !quoted,
            b',' if is_plain && !quoted => {
                parts.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[from..]);
    parts
}

/// Removes single quotes; `None` if a quote or backslash is not part of an escape.
fn unquoted(value: &str) -> Option<&str> {
    let inner = match value.strip_prefix('\'') {
        Some(rest) => rest.strip_suffix('\'')?,
        None => value,
    };
    let plain = |at: usize| at > 0 && inner.as_bytes()[at - 1] == b'\\';
    let quotes = inner.match_indices(['\'', '"']).all(|(at, _)| plain(at));
    (quotes && !inner.ends_with('\\')).then_some(inner)
}

/// Accepts an action by its lower-case name, or returns the reason for refusing it.
fn accept(name: &str, value: Option<&str>, actions: &mut Actions) -> Result<(), String> {
    let nonempty = value.filter(|value| !value.is_empty());
    match name {
        "id" => {
            let id = nonempty.and_then(|id| id.parse::<u32>().ok()).filter(|id| *id > 0);
            if actions.id.replace(id.ok_or("the id is no whole number above 0")?).is_some() {
                return Err("the rule has two ids".to_owned());
            }
        }
        "phase" => {
            let phases = ["1", "2", "3", "4", "5", "request", "response", "logging"];
            if !nonempty.is_some_and(|phase| phases.contains(&phase.to_ascii_lowercase().as_str())) {
                return Err("a phase is one of 1 to 5, request, response and logging".to_owned());
            }
        }
        "status" => {
            let status = nonempty.and_then(|status| status.parse::<u16>().ok());
            if !status.is_some_and(|status| (200..=599).contains(&status)) {
                return Err("a status is a number from 200 to 599".to_owned());
            }
        }
        "skip" if nonempty.is_some_and(|number| number.parse::<u16>().is_ok()) => {}
        "skip" => return Err("skip has no number".to_owned()),
        "t" => {
            let transformation = nonempty.unwrap_or_default().to_ascii_lowercase();
            if !TRANSFORMATIONS.contains(&transformation.as_str()) {
                return Err("Coraza has no such transformation".to_owned());
            }
        }
        "ctl" => control(nonempty.unwrap_or_default())?,
        "chain" => actions.chains = true,
        _ => {}
    }
    if let Some((_, why)) = REFUSED_ACTIONS.iter().find(|(refused, _)| *refused == name) {
        return Err(format!("{name} is refused: {why}"));
    }
    let known = match nonempty {
        _ if ["id", "phase", "status", "skip", "t", "ctl"].contains(&name) => true,
        None => PLAIN_ACTIONS.contains(&name) && value.is_none(),
        Some(_) => TEXT_ACTIONS.contains(&name),
    };
    match known {
        true => Ok(()),
        false => Err("it is no action that is understood".to_owned()),
    }
}

/// `ctl:OPTION=VALUE`.
fn control(text: &str) -> Result<(), String> {
    let (option, value) = text.split_once('=').ok_or("ctl has no OPTION=VALUE")?;
    let (option, value) = (option.trim().to_ascii_lowercase(), value.trim().to_ascii_lowercase());
    let is_one_of = |values: &[&str]| match values.contains(&value.as_str()) {
        true => Ok(()),
        false => Err(format!("{option} is one of {}", values.join(", "))),
    };
    match option.as_str() {
        "ruleengine" => is_one_of(&["on", "off", "detectiononly"]),
        "auditengine" => is_one_of(&["on", "off", "relevantonly"]),
        "requestbodyaccess"
        | "responsebodyaccess"
        | "forcerequestbodyvariable"
        | "forceresponsebodyvariable" => is_one_of(&["on", "off"]),
        "requestbodyprocessor" | "responsebodyprocessor" => {
            is_one_of(&["urlencoded", "multipart", "xml", "json"])
        }
        _ if CTL_OPTIONS.contains(&option.as_str()) && !value.is_empty() => Ok(()),
        _ => Err("ctl has no such option, or it is refused".to_owned()),
    }
}
