//! Generates docs/nginx-flags.md, the list of the other controllers' flags, from the translation table. `UPDATE_GOLDEN=1` writes
//! it.

use std::fmt::Write as _;
use std::path::Path;

use fairway_testkit::golden;

use super::table::{Dialect, Flag, ListeningPart, Meaning};

const PAGE_HEAD: &str = "\
# Flags of ingress-nginx and of NGINX's own controller

Look up here what Fairway does with each argument of your container when you [change its image](migrate.md#with-the-manifests-of-the-old-controller)
to Fairway's. You can add flags of `fairway run`. Any other flag gives a warning and has no effect.

This page is generated from the table that translates the flags.
";

fn page() -> String {
    let mut page = PAGE_HEAD.to_owned();
    for (dialect, heading, dashes) in
        [(Dialect::IngressNginx, "ingress-nginx", "--"), (Dialect::NginxInc, "NGINX's own controller", "-")]
    {
        write!(page, "\n## {heading}\n\n").unwrap();
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for flag in dialect.flags() {
            let (meaning, name) = (meaning(flag), format!("`{dashes}{}`", flag.name));
            match groups.iter_mut().find(|(known, _)| *known == meaning) {
                Some((_, names)) => names.push(name),
                None => groups.push((meaning, vec![name])),
            }
        }
        for (meaning, names) in groups {
            writeln!(page, "* {}: {meaning}", names.join(", ")).unwrap();
        }
    }
    page
}

fn meaning(flag: &Flag) -> String {
    match flag.meaning {
        Meaning::Is(own) | Meaning::Address(own) | Meaning::Switch(own) if own == flag.name => {
            "the flag of the same name".to_owned()
        }
        Meaning::Is(own) | Meaning::Address(own) | Meaning::Switch(own) => format!("`--{own}`"),
        Meaning::SwitchOn(own) => format!("`--{own}`, which is on by default"),
        Meaning::OfThisNamespace(own) => format!("`--{own}`, in the namespace of the pod"),
        Meaning::Port(ListeningPart::Http) => "the port of `--http`".to_owned(),
        Meaning::Port(ListeningPart::Https) => "the port of `--https`".to_owned(),
        Meaning::Port(ListeningPart::Health) => "the port of `--probe`; that of `--admin` is one above".to_owned(),
        Meaning::Port(ListeningPart::Metrics) => "one more port of `--probe`".to_owned(),
        Meaning::InternalNodes => {
            "`--publish-nodes=internal` if it is true and no flag names the addresses; else `--publish-nodes=external`".to_owned()
        }
        Meaning::Status => "`--no-status` if it is false".to_owned(),
        Meaning::Lost { without: ["true", "false"], .. } => "no effect, and nothing is lost".to_owned(),
        Meaning::Lost { without: [], consequence: what } | Meaning::Needless(what) => format!("warning: {what}"),
        Meaning::Lost { without, consequence: what } => {
            let without: Vec<_> = without.iter().map(|value| format!("`{value}`")).collect();
            format!("no effect with {}; else a warning: {what}", without.join(", "))
        }
    }
}

#[test]
fn the_page_matches_the_table() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/nginx-flags.md");
    golden::check(file, &page());
}
