//! docs/nginx-flags.md: what each flag of the other controllers is here, by the table that translates them. `UPDATE_GOLDEN=1`
//! writes it.

use std::fmt::Write as _;
use std::path::Path;

use fairway_testkit::golden;

use super::table::{Dialect, Flag, Meaning, Place};

const BEGINNING: &str = "\
# Flags of ingress-nginx and of NGINX's own controller

This page lists what Fairway does with each argument of your container when you [change its image](migrate.md#with-the-manifests-of-the-old-controller)
to Fairway's. You can add flags of `fairway run`. A flag in neither table gives a warning and has no effect.

This page is generated from the table that translates the flags.
";

fn page() -> String {
    let mut page = BEGINNING.to_owned();
    for (dialect, heading, dashes) in
        [(Dialect::IngressNginx, "ingress-nginx", "--"), (Dialect::NginxInc, "NGINX's own controller", "-")]
    {
        write!(page, "\n## {heading}\n\n| flag | with Fairway |\n| --- | --- |\n").unwrap();
        for flag in dialect.flags() {
            writeln!(page, "| `{dashes}{}` | {} |", flag.name, meaning(flag)).unwrap();
        }
    }
    page
}

fn meaning(flag: &Flag) -> String {
    match flag.meaning {
        Meaning::Is(own) | Meaning::Address(own) | Meaning::Switch(own) => format!("`--{own}`"),
        Meaning::SwitchOn(own) => format!("`--{own}`, which is on by default"),
        Meaning::OfThisNamespace(own) => format!("`--{own}`, in the namespace of the pod"),
        Meaning::Port(Place::Http) => "the port of `--http`".to_owned(),
        Meaning::Port(Place::Https) => "the port of `--https`".to_owned(),
        Meaning::Port(Place::Health) => "the port of `--probe`; that of `--admin` is one above".to_owned(),
        Meaning::Port(Place::Metrics) => "one more port of `--probe`".to_owned(),
        Meaning::InternalNodes => {
            "`--publish-nodes=internal` if it is true and no flag names the addresses; else `--publish-nodes=external`".to_owned()
        }
        Meaning::Status => "`--no-status` if it is false".to_owned(),
        Meaning::Lost { without: ["true", "false"], .. } => "no effect, and nothing is lost".to_owned(),
        Meaning::Lost { without: [], what } | Meaning::Needless(what) => format!("warning: {what}"),
        Meaning::Lost { without, what } => {
            let without: Vec<_> = without.iter().map(|value| format!("`{value}`")).collect();
            format!("{}: no effect; else a warning: {what}", without.join(", "))
        }
    }
}

#[test]
fn the_page_is_what_the_table_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/nginx-flags.md");
    golden::check(file, &page());
}
