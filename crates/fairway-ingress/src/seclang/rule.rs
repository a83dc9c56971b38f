//! Variables and operators of rules: which exist, and which patterns RE2 supports, with which Coraza matches.

/// Operators with an argument.
const OPERATORS: [&str; 21] = [
    "beginswith",
    "contains",
    "detectsqli",
    "detectxss",
    "endswith",
    "eq",
    "ge",
    "gt",
    "ipmatch",
    "le",
    "lt",
    "nomatch",
    "pm",
    "rx",
    "streq",
    "strmatch",
    "unconditionalmatch",
    "validatebyterange",
    "validateurlencoding",
    "validateutf8encoding",
    "within",
];
/// Refused operators.
const REFUSED_OPERATORS: [(&str, &str); 13] = [
    ("fuzzyhash", "it reads a file"),
    ("geolookup", "it reads a file"),
    ("gsblookup", "it asks another service"),
    ("inspectfile", "it runs a program"),
    ("ipmatchf", "it reads a file"),
    ("ipmatchfromdataset", "there are no data sets"),
    ("ipmatchfromfile", "it reads a file"),
    ("pmf", "it reads a file"),
    ("pmfromdataset", "there are no data sets"),
    ("pmfromfile", "it reads a file"),
    ("rbl", "it asks a name server"),
    ("validatedtd", "it reads a file"),
    ("validateschema", "it reads a file"),
];
/// Collections, whose members can be selected (`NAME:PART`).
const COLLECTIONS: [&str; 28] = [
    "ARGS",
    "ARGS_GET",
    "ARGS_GET_NAMES",
    "ARGS_NAMES",
    "ARGS_POST",
    "ARGS_POST_NAMES",
    "FILES",
    "FILES_NAMES",
    "FILES_SIZES",
    "FILES_TMP_CONTENT",
    "JSON",
    "MATCHED_VARS",
    "MATCHED_VARS_NAMES",
    "MULTIPART_FILENAME",
    "MULTIPART_NAME",
    "MULTIPART_PART_HEADERS",
    "REQUEST_COOKIES",
    "REQUEST_COOKIES_NAMES",
    "REQUEST_HEADERS",
    "REQUEST_HEADERS_NAMES",
    "REQUEST_XML",
    "RESPONSE_ARGS",
    "RESPONSE_HEADERS",
    "RESPONSE_HEADERS_NAMES",
    "RESPONSE_XML",
    "RULE",
    "TX",
    "XML",
];
/// Variables without members.
const SINGLE_VARIABLES: [&str; 56] = [
    "ARGS_COMBINED_SIZE",
    "AUTH_TYPE",
    "DURATION",
    "FILES_COMBINED_SIZE",
    "FULL_REQUEST_LENGTH",
    "HIGHEST_SEVERITY",
    "INBOUND_DATA_ERROR",
    "MATCHED_VAR",
    "MATCHED_VAR_NAME",
    "MULTIPART_BOUNDARY_QUOTED",
    "MULTIPART_BOUNDARY_WHITESPACE",
    "MULTIPART_CRLF_LF_LINES",
    "MULTIPART_DATA_AFTER",
    "MULTIPART_DATA_BEFORE",
    "MULTIPART_FILE_LIMIT_EXCEEDED",
    "MULTIPART_HEADER_FOLDING",
    "MULTIPART_INVALID_HEADER_FOLDING",
    "MULTIPART_INVALID_PART",
    "MULTIPART_INVALID_QUOTING",
    "MULTIPART_LF_LINE",
    "MULTIPART_MISSING_SEMICOLON",
    "MULTIPART_STRICT_ERROR",
    "MULTIPART_UNMATCHED_BOUNDARY",
    "OUTBOUND_DATA_ERROR",
    "QUERY_STRING",
    "REMOTE_ADDR",
    "REMOTE_HOST",
    "REMOTE_PORT",
    "REQBODY_ERROR",
    "REQBODY_ERROR_MSG",
    "REQBODY_PROCESSOR",
    "REQBODY_PROCESSOR_ERROR",
    "REQBODY_PROCESSOR_ERROR_MSG",
    "REQUEST_BASENAME",
    "REQUEST_BODY",
    "REQUEST_BODY_LENGTH",
    "REQUEST_FILENAME",
    "REQUEST_LINE",
    "REQUEST_METHOD",
    "REQUEST_PROTOCOL",
    "REQUEST_URI",
    "REQUEST_URI_RAW",
    "RESPONSE_BODY",
    "RESPONSE_CONTENT_LENGTH",
    "RESPONSE_CONTENT_TYPE",
    "RESPONSE_PROTOCOL",
    "RESPONSE_STATUS",
    "SERVER_ADDR",
    "SERVER_NAME",
    "SERVER_PORT",
    "STATUS_LINE",
    "TIME",
    "TIME_EPOCH",
    "UNIQUE_ID",
    "URI_PARSE_ERROR",
    "URLENCODED_ERROR",
];
/// Supported paths of XML and JSON.
const PATHS: [&str; 2] = ["/*", "//@*"];
/// RE2's limit for repetitions.
const MAX_REPETITIONS: u32 = 1000;

/// Checks the variables of a rule: names separated by `|`, each with optional `&` or `!` before it and `:PART` after
/// it.
pub(super) fn check_variables(text: &str) -> Result<(), String> {
    let mut rest = text;
    loop {
        let start = rest.trim_start_matches(['!', '&']);
        let end = start.find(['|', ':']).unwrap_or(start.len());
        let name = &start[..end];
        let is_in = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        let is_collection = is_in(&COLLECTIONS);
        if !is_collection && !is_in(&SINGLE_VARIABLES) {
            return Err(format!("{name} is no variable that is understood"));
        }
        let mut behind = &start[end..];
        if let Some(part) = behind.strip_prefix(':') {
            if !is_collection {
                return Err(format!("{name} has no parts"));
            }
            let is_path = |part: &str| PATHS.contains(&part) && is_in(&["XML", "JSON"]);
            let variable = &part[..part.find('|').unwrap_or(part.len())];
            behind = match is_path(variable) {
                true => &part[variable.len()..],
                false => {
                    rest_after_part(part).ok_or_else(|| format!("the part of {name} is not understood"))?
                }
            };
        }
        match behind.strip_prefix('|') {
            Some(more) => rest = more,
            None if behind.is_empty() => return Ok(()),
            None => return Err("something stands between variables".to_owned()),
        }
    }
}

/// The text after `PART`: a name, or `/REGEX/`, or one of these in single quotes.
fn rest_after_part(text: &str) -> Option<&str> {
    let (inner, quoted) = match text.strip_prefix('\'') {
        Some(inner) => (inner, true),
        None => (text, false),
    };
    let behind = match inner.strip_prefix('/') {
        Some(pattern) => {
            let end = closing_slash(pattern)?;
            check_pattern(&pattern[..end]).ok()?;
            &pattern[end + 1..]
        }
        None => {
            let end = inner.find(['|', '\'']).unwrap_or(inner.len());
            let plain = |c: char| c.is_ascii_graphic() && !"\"'`\\|,".contains(c);
            (end > 0 && inner[..end].chars().all(plain)).then_some(&inner[end..])?
        }
    };
    if quoted { behind.strip_prefix('\'') } else { Some(behind) }
}

fn closing_slash(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let is_end = byte == b'/' && !escaped;
        escaped = byte == b'\\' && !escaped;
        is_end
    })
}

/// Checks an operator with its argument: `[!]@NAME ARGUMENT`, or a pattern alone.
pub(super) fn check_operator(text: &str) -> Result<(), String> {
    let positive = text.strip_prefix('!').unwrap_or(text);
    let Some(named) = positive.strip_prefix('@') else { return check_pattern(positive) };
    let (name, argument) = named.split_once(' ').unwrap_or((named, ""));
    let lower = name.to_ascii_lowercase();
    if let Some((_, why)) = REFUSED_OPERATORS.iter().find(|(refused, _)| *refused == lower) {
        return Err(format!("@{name} is refused: {why}"));
    }
    if !OPERATORS.contains(&lower.as_str()) {
        return Err(format!("@{name} is no operator that is understood"));
    }
    if lower == "rx" { check_pattern(argument.trim()) } else { Ok(()) }
}

/// Refuses PCRE syntax that RE2 does not support. A pattern that RE2 rejects would disable the whole firewall of its
/// Ingress.
pub(super) fn check_pattern(pattern: &str) -> Result<(), String> {
    let chars: Vec<char> = pattern.chars().collect();
    let not_re2 = |problem: &str| {
        Err(format!("the pattern has {problem}, which Coraza's regular expressions (RE2) have not"))
    };
    let (mut at, mut in_class) = (0, false);
    while at < chars.len() {
        let next = |offset: usize| chars.get(at + offset).copied().unwrap_or('\0');
        match chars[at] {
            '\\' => {
                match next(1) {
                    '1'..='9' | 'k' | 'g' if !in_class => return not_re2("a back reference"),
                    c if "ZGRhHKXNEc".contains(c) => return not_re2(&format!("\\{c}")),
                    _ => {}
                }
                at += 1;
            }
            ']' if in_class => in_class = false,
            '[' if !in_class => {
                in_class = true;
                // A bracket in first position is a member of the class.
                at += usize::from(next(1) == '^');
                at += usize::from(chars.get(at + 1) == Some(&']'));
            }
            _ if in_class => {}
            '(' if next(1) == '?' => check_group(next(2), next(3)).or_else(&not_re2)?,
            '*' | '+' | '?' | '}' if next(1) == '+' && at > 0 => return not_re2("a possessive repetition"),
            '{' if repetitions(&chars[at + 1..]).is_some_and(|most| most > MAX_REPETITIONS) => {
                return not_re2("more than 1000 repetitions");
            }
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// Checks what follows `(?`.
fn check_group(first: char, second: char) -> Result<(), &'static str> {
    match (first, second) {
        ('=' | '!', _) | ('<', '=' | '!') => Err("look-around"),
        ('>', _) => Err("an atomic group"),
        (':' | '<', _) | ('P', '<') => Ok(()),
        (c, _) if "imsU-".contains(c) => Ok(()),
        _ => Err("a group of a kind"),
    }
}

/// The largest number in `{N}` or `{N,M}`.
fn repetitions(behind: &[char]) -> Option<u32> {
    let end = behind.iter().position(|c| *c == '}')?;
    let text: String = behind[..end].iter().collect();
    text.split(',').filter_map(|number| number.parse().ok()).max()
}
