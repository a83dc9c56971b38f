//! Directives by name: the translation of supported ones, and the list of refused ones.

use super::actions;
use super::lines::{Line, Word};
use super::problem::Problem;
use super::rule::{check_operator, check_pattern, check_variables};
use super::text::{CORE_RULE_SET, Engine, MAX_RULES, RulePart, RuleText};

/// ingress-nginx's file with the recommended configuration.
const RECOMMENDED_PATH: &str = "/etc/nginx/modsecurity/modsecurity.conf";

/// The pattern for `SecAuditLogRelevantStatus` from `modsecurity.conf-recommended`, which many texts repeat, and its
/// RE2 equivalent.
const NOT_404: &str = "^(?:5|4(?!04))";
const NOT_404_IN_RE2: &str = "^(?:5|4(?:0[0-35-9]|[1-9]))";

/// The value of a directive.
#[derive(Clone, Copy)]
enum Value {
    /// One of these.
    OneOf(&'static [&'static str]),
    /// An integer.
    Number,
    /// An integer above 0.
    Size,
    /// A regular expression.
    Pattern,
    /// Letters.
    Letters,
    /// Media types.
    MediaTypes,
    /// A name.
    Name,
}

const SWITCH: Value = Value::OneOf(&["On", "Off"]);

/// Directives that set a value of the firewall.
const SETTINGS: [(&str, Value); 15] = [
    ("SecArgumentsLimit", Value::Number),
    ("SecAuditEngine", Value::OneOf(&["On", "Off", "RelevantOnly"])),
    ("SecAuditLogParts", Value::Letters),
    ("SecAuditLogRelevantStatus", Value::Pattern),
    ("SecRequestBodyAccess", SWITCH),
    ("SecRequestBodyJsonDepthLimit", Value::Number),
    ("SecRequestBodyLimit", Value::Size),
    ("SecRequestBodyLimitAction", Value::OneOf(&["Reject", "ProcessPartial"])),
    ("SecRequestBodyNoFilesLimit", Value::Number),
    ("SecResponseBodyAccess", SWITCH),
    ("SecResponseBodyLimit", Value::Size),
    ("SecResponseBodyLimitAction", Value::OneOf(&["Reject", "ProcessPartial"])),
    ("SecResponseBodyMimeType", Value::MediaTypes),
    ("SecSensorId", Value::Name),
    ("SecWebAppId", Value::Name),
];

/// Directives that the recommended configuration sets: including it overrides earlier values.
pub(super) const SET_BY_RECOMMENDED: [&str; 11] = [
    "SecAuditEngine",
    "SecAuditLogParts",
    "SecAuditLogRelevantStatus",
    "SecRequestBodyAccess",
    "SecRequestBodyLimit",
    "SecRequestBodyLimitAction",
    "SecRequestBodyNoFilesLimit",
    "SecResponseBodyAccess",
    "SecResponseBodyLimit",
    "SecResponseBodyLimitAction",
    "SecResponseBodyMimeType",
];

/// Directives with values that ask for the existing behaviour.
const IGNORED_DIRECTIVES: [(&str, Value); 15] = [
    // fairway-waf decides where the audit log is written.
    ("SecAuditLog", Value::OneOf(&["/dev/stdout", "/dev/stderr"])),
    ("SecAuditLogFormat", Value::OneOf(&["JSON", "Native"])),
    ("SecAuditLogType", Value::OneOf(&["Serial"])),
    ("SecArgumentSeparator", Value::OneOf(&["&"])),
    ("SecCollectionTimeout", Value::Number),
    ("SecCookieFormat", Value::OneOf(&["0"])),
    ("SecDebugLogLevel", Value::OneOf(&["0"])),
    ("SecPcreMatchLimit", Value::Number),
    ("SecPcreMatchLimitRecursion", Value::Number),
    ("SecRequestBodyInMemoryLimit", Value::Number),
    ("SecRxPreFilter", SWITCH),
    ("SecStatusEngine", SWITCH),
    ("SecUploadFileLimit", Value::Number),
    ("SecUploadKeepFiles", Value::OneOf(&["Off"])),
    ("SecXmlExternalEntity", Value::OneOf(&["Off"])),
];

/// Directives that are always refused.
const REFUSED_DIRECTIVES: [(&str, &str); 19] = [
    ("SecAuditLog2", "it names a file"),
    ("SecAuditLogDirMode", "it is about files"),
    ("SecAuditLogFileMode", "it is about files"),
    ("SecAuditLogStorageDir", "it names a directory"),
    ("SecDataDir", "it names a directory"),
    ("SecDataset", "data sets are not read"),
    ("SecDebugLog", "it names a file"),
    ("SecGeoLookupDb", "it names a file"),
    ("SecGsbLookupDb", "it names a file"),
    ("SecHttpBlKey", "it asks another service"),
    ("SecIgnoreRuleCompilationErrors", "rules that cannot be read would protect nothing"),
    ("SecRemoteRules", "it reads rules from another server"),
    ("SecRemoteRulesFailAction", "it is about rules of another server"),
    ("SecRuleScript", "it runs a program"),
    ("SecTmpDir", "it names a directory"),
    ("SecUnicodeMapFile", "it names a file"),
    ("SecUploadDir", "it names a directory"),
    ("SecUploadFileMode", "it is about files"),
    ("SecRuleUpdateTargetByMsg", "Coraza has it not; SecRuleUpdateTargetById and ByTag work"),
];

/// Reads all directives.
pub(super) fn read(lines: &[Line]) -> Result<RuleText, Problem> {
    let mut text = RuleText::default();
    let mut chained = None;
    for line in lines {
        let words = line.words()?;
        let Some((name, arguments)) = words.split_first() else { continue };
        let reading = DirectiveReader { line, name: name.text, arguments, text: &mut text };
        let is_rule = name.text.eq_ignore_ascii_case("SecRule");
        if chained.is_some() && !is_rule {
            return reading.wrong("a rule with chain stands before it, behind which a SecRule must follow");
        }
        chained = reading.read(chained.is_some())?.then_some(line);
    }
    match chained {
        Some(line) => Err(Problem::new(line.number, &line.text, "it has chain, and no rule follows")),
        None => Ok(text),
    }
}

/// A directive being read.
struct DirectiveReader<'a> {
    line: &'a Line,
    name: &'a str,
    arguments: &'a [Word<'a>],
    text: &'a mut RuleText,
}

impl DirectiveReader<'_> {
    fn wrong<T>(&self, reason: impl Into<String>) -> Result<T, Problem> {
        Err(Problem::new(self.line.number, &self.line.text, reason))
    }

    /// Reads the directive; returns whether the next rule belongs to it. `chained` says whether it belongs to the
    /// previous one.
    fn read(mut self, chained: bool) -> Result<bool, Problem> {
        match self.name.to_ascii_lowercase().as_str() {
            "secrule" => return self.rule(chained),
            "secaction" => {
                let [list] = self.arguments else { return self.wrong("SecAction has one list of actions") };
                let actions = self.actions(list)?;
                self.record_id(actions.id, false)?;
                self.push(format!("SecAction \"{}\"", actions.text))?;
                return Ok(actions.chains);
            }
            "secdefaultaction" => {
                let [list] = self.arguments else {
                    return self.wrong("SecDefaultAction has one list of actions");
                };
                let actions = self.actions(list)?;
                if actions.id.is_some() || actions.chains {
                    return self.wrong("SecDefaultAction has neither an id nor chain");
                }
                self.push(format!("SecDefaultAction \"{}\"", actions.text))?;
            }
            "secmarker" => {
                let marker = self.single("a name")?;
                if !marker.chars().all(|c| c.is_ascii_alphanumeric() || "-_. ".contains(c))
                    || marker.is_empty()
                {
                    return self.wrong("a marker is made of letters, digits and -_.");
                }
                self.push(format!("SecMarker \"{marker}\""))?;
            }
            "secruleengine" => {
                self.text.engine =
                    Some(match self.single("On, Off or DetectionOnly")?.to_ascii_lowercase().as_str() {
                        "on" => Engine::On,
                        "off" => Engine::Off,
                        "detectiononly" => Engine::DetectionOnly,
                        _ => return self.wrong("SecRuleEngine is one of On, Off and DetectionOnly"),
                    });
            }
            "include" => self.include()?,
            "secruleremovebyid" => self.remove_by_id()?,
            "secruleremovebytag" => self.remove_by_text("SecRuleRemoveByTag")?,
            "secruleremovebymsg" => self.remove_by_text("SecRuleRemoveByMsg")?,
            "secruleupdatetargetbyid" => self.update_by_id("SecRuleUpdateTargetById")?,
            "secruleupdateactionbyid" => self.update_by_id("SecRuleUpdateActionById")?,
            "secruleupdatetargetbytag" => self.update_by_tag()?,
            lower => self.setting(lower)?,
        }
        Ok(false)
    }

    /// The only argument.
    fn single(&self, expectation: &str) -> Result<String, Problem> {
        match self.arguments {
            [word] => Ok(word.text.to_owned()),
            _ => self.wrong(format!("{} has {expectation} as its only argument", self.name)),
        }
    }

    fn push(&mut self, directive: String) -> Result<(), Problem> {
        if self.text.parts.len() >= MAX_RULES {
            return self.wrong(format!("there are more than {MAX_RULES} rules"));
        }
        self.text.parts.push(RulePart::Directive(directive));
        Ok(())
    }

    fn push_exception(&mut self, directive: String) -> Result<(), Problem> {
        if self.text.exceptions.len() >= MAX_RULES {
            return self.wrong(format!("there are more than {MAX_RULES} changes to rules"));
        }
        self.text.exceptions.push(directive);
        Ok(())
    }

    fn actions(&self, list: &Word<'_>) -> Result<actions::Actions, Problem> {
        actions::read(self.line, list.text)
    }

    /// Every rule has its own id; in a chain, only the first rule has one.
    fn record_id(&mut self, id: Option<u32>, chained: bool) -> Result<(), Problem> {
        match (id, chained) {
            (None, true) => Ok(()),
            (Some(_), true) => self.wrong("a rule of a chain has an id, and only the first has one"),
            (None, false) => self.wrong("the rule has no id"),
            (Some(id), false) if !self.text.ids.insert(id) => {
                self.wrong(format!("rule {id} is there already"))
            }
            (Some(_), false) => Ok(()),
        }
    }

    fn rule(mut self, chained: bool) -> Result<bool, Problem> {
        let (variables, operator, list) = match self.arguments {
            [variables, operator] => (variables, operator, None),
            [variables, operator, list] => (variables, operator, Some(list)),
            _ => return self.wrong("SecRule has variables, an operator and actions; write operator and actions between double quotes"),
        };
        if let Err(problem) = check_variables(variables.text).and_then(|()| check_operator(operator.text)) {
            return self.wrong(problem);
        }
        let actions = list.map(|list| self.actions(list)).transpose()?.unwrap_or_default();
        self.record_id(actions.id, chained)?;
        let list = if actions.text.is_empty() { String::new() } else { format!(" \"{}\"", actions.text) };
        self.push(format!("SecRule {} \"{}\"{list}", variables.text, operator.text))?;
        Ok(actions.chains)
    }

    fn include(&mut self) -> Result<(), Problem> {
        match self.single("a file")?.as_str() {
            RECOMMENDED_PATH => {
                self.text.recommended = true;
                self.text.engine = Some(Engine::DetectionOnly);
                SET_BY_RECOMMENDED.iter().for_each(|name| drop(self.text.settings.remove(name)));
                Ok(())
            }
            CORE_RULE_SET => {
                self.text.add_core_rule_set();
                Ok(())
            }
            _ => self.wrong(format!("only {RECOMMENDED_PATH} and {CORE_RULE_SET} can be included")),
        }
    }

    fn remove_by_id(&mut self) -> Result<(), Problem> {
        let words = self.arguments.iter().flat_map(|word| word.text.split_whitespace());
        let ids: Vec<&str> = words.collect();
        if ids.is_empty() || !ids.iter().all(|id| is_id_or_range(id)) {
            return self
                .wrong("SecRuleRemoveById has ids and ranges of them, such as 942100 or 942000-942999");
        }
        self.push_exception(format!("SecRuleRemoveById {}", ids.join(" ")))
    }

    fn remove_by_text(&mut self, name: &str) -> Result<(), Problem> {
        let text = self.single("a text")?;
        if text.is_empty() || text.contains(['"', '\\']) {
            return self.wrong("the text is empty, or has a quote or a backslash");
        }
        self.push_exception(format!("{name} \"{text}\""))
    }

    fn update_by_id(&mut self, name: &str) -> Result<(), Problem> {
        let [id, change] = self.arguments else {
            return self.wrong(format!("{name} has an id or a range, and what changes"));
        };
        if !is_id_or_range(id.text) {
            return self.wrong(format!("\"{}\" is neither an id nor a range of ids", id.text));
        }
        let change = if name == "SecRuleUpdateActionById" {
            let actions = self.actions(change)?;
            if actions.id.is_some() || actions.chains {
                return self.wrong("neither id nor chain of a rule can be changed");
            }
            actions.text
        } else {
            targets(change.text).or_else(|problem| self.wrong(problem))?
        };
        if change.contains(char::is_whitespace) {
            return self.wrong("what changes has a space in it, which Coraza does not read there");
        }
        self.push_exception(format!("{name} {} \"{change}\"", id.text))
    }

    fn update_by_tag(&mut self) -> Result<(), Problem> {
        let [tag, change] = self.arguments else {
            return self.wrong("SecRuleUpdateTargetByTag has a tag, and what changes");
        };
        let plain = |c: char| c.is_ascii_graphic() && !"\"'`\\".contains(c);
        if tag.text.is_empty() || !tag.text.chars().all(plain) {
            return self.wrong("the tag is empty, or has a space, a quote or a backslash");
        }
        let change = targets(change.text).or_else(|problem| self.wrong(problem))?;
        self.push_exception(format!("SecRuleUpdateTargetByTag {} \"{change}\"", tag.text))
    }

    /// Directives that set a value, by lower-case name.
    fn setting(&mut self, lower: &str) -> Result<(), Problem> {
        let is = |name: &str| name.eq_ignore_ascii_case(lower);
        if let Some((_, why)) = REFUSED_DIRECTIVES.iter().find(|(name, _)| is(name)) {
            return self.wrong(format!("{} is refused: {why}", self.name));
        }
        if let Some((_, value)) = IGNORED_DIRECTIVES.iter().find(|(name, _)| is(name)) {
            return self.value(*value).map(drop);
        }
        let Some((name, value)) = SETTINGS.iter().find(|(name, _)| is(name)) else {
            return self.wrong(format!("{} is no directive that is understood", self.name));
        };
        let value = self.value(*value)?;
        self.text.settings.insert(name, value);
        Ok(())
    }

    /// The value as sent to the firewall.
    fn value(&self, kind: Value) -> Result<String, Problem> {
        if let Value::MediaTypes = kind {
            let plain = |c: char| c.is_ascii_alphanumeric() || "/+-._*".contains(c);
            let types: Vec<&str> =
                self.arguments.iter().flat_map(|word| word.text.split_whitespace()).collect();
            let good = !types.is_empty() && types.iter().all(|it| it.chars().all(plain));
            return if good { Ok(types.join(" ")) } else { self.wrong("it is no list of media types") };
        }
        let found_values = self.single("a value")?;
        match kind {
            Value::OneOf(values) => {
                match values.iter().find(|value| value.eq_ignore_ascii_case(&found_values)) {
                    Some(value) => Ok((*value).to_owned()),
                    None => self.wrong(format!("of {} only {} is allowed", self.name, values.join(", "))),
                }
            }
            Value::Number | Value::Size => match found_values.parse::<u32>() {
                Ok(0) if matches!(kind, Value::Size) => self.wrong("it has no whole number above 0"),
                Ok(number) => Ok(number.to_string()),
                Err(_) => self.wrong("it has no whole number"),
            },
            Value::Pattern if found_values == NOT_404 => Ok(format!("\"{NOT_404_IN_RE2}\"")),
            Value::Pattern => match check_pattern(&found_values) {
                Ok(()) => Ok(format!("\"{found_values}\"")),
                Err(problem) => self.wrong(problem),
            },
            Value::Letters
                if !found_values.is_empty() && found_values.chars().all(|c| c.is_ascii_uppercase()) =>
            {
                Ok(found_values)
            }
            Value::Letters => self.wrong("it is made of the letters A to Z"),
            Value::Name | Value::MediaTypes => {
                let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
                match !found_values.is_empty() && found_values.chars().all(plain) {
                    true => Ok(found_values),
                    false => self.wrong("a name is made of letters, digits and -_."),
                }
            }
        }
    }
}

fn is_id_or_range(text: &str) -> bool {
    let number =
        |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    match text.split_once('-') {
        Some((from, to)) => number(from).zip(number(to)).is_some_and(|(from, to)| from <= to),
        None => number(text).is_some(),
    }
}

/// Variables that are added to a rule or, with `!`, removed; ModSecurity separates them by commas or bars.
fn targets(text: &str) -> Result<String, String> {
    if text.contains(',') && text.contains('/') {
        return Err("write | between variables, not a comma, where one has a pattern".to_owned());
    }
    let bars = text.replace(',', "|");
    check_variables(&bars)?;
    match bars.contains(char::is_whitespace) {
        true => Err("variables have no space in them".to_owned()),
        false => Ok(bars),
    }
}
