//! Translates the command lines of ingress-nginx and of NGINX's own controller to `fairway run`, so that a container starts with
//! the arguments in its manifest. Fairway logs a warning at startup for every flag that has no effect.
//!
//! [`table`] lists the meaning of each flag, [`mod@line`] parses a command line.

#[cfg(test)]
mod document;
mod line;
mod table;

use clap::CommandFactory;
use fairway_migrate::values::FlagMeaning;

use crate::args::Cli;
use line::GivenFlag;
use table::{Dialect, Flag, Meaning};

/// A command line of `fairway run`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TranslatedCommandLine {
    /// The arguments, the program's name first.
    pub(crate) arguments: Vec<String>,
    /// Warnings about flags that have no effect, one sentence each.
    pub(crate) lost: Vec<String>,
}

/// Translates `arguments`, the program's name first; `None` if it is not a command line of another controller. `namespace` is that
/// of the pod.
pub(crate) fn translate(arguments: &[String], namespace: Option<&str>) -> Option<TranslatedCommandLine> {
    let (program, rest) = arguments.split_first()?;
    let (dialect, rest) = match (dialect_of(program), rest.first().and_then(|first| dialect_of(first))) {
        (Some(dialect), _) => (dialect, rest),
        (None, Some(dialect)) => (dialect, &rest[1..]),
        // If the entry point of the image is the program, the arguments start with a flag.
        (None, None) => (Dialect::ALL.into_iter().find(|dialect| dialect.recognizes(rest))?, rest),
    };
    let run = Cli::command();
    let run = run.find_subcommand("run").expect("it is a subcommand");
    let own_flag = |name: &str| {
        let argument = run.get_arguments().find(|argument| argument.get_long() == Some(name))?;
        Some(argument.get_action().takes_values())
    };
    let mut translation = Translation::new(dialect, program, namespace);
    for given in line::read(rest, |name| dialect.flag(name).map(Flag::takes_value).or_else(|| own_flag(name)))
    {
        match dialect.flag(&given.name) {
            Some(flag) => translation.add_foreign_flag(flag, &given),
            None if own_flag(&given.name).is_some() => translation.add_own_flag(&given),
            None => translation.lost.push(format!("{}: unknown flag; it has no effect", given.text)),
        }
    }
    Some(translation.finish())
}

/// The meaning of an ingress-nginx flag from the values of its chart for Fairway's chart.
pub(crate) fn chart_flag_meaning(name: &str, value: &str) -> FlagMeaning {
    let Some(flag) = Dialect::IngressNginx.flag(name) else {
        return FlagMeaning::Lost("Fairway does not know this flag".to_owned());
    };
    match flag.meaning {
        Meaning::Is(own) => FlagMeaning::Argument(format!("--{own}={value}")),
        Meaning::Switch(own) if value == "true" => FlagMeaning::Argument(format!("--{own}")),
        Meaning::Switch(_) => FlagMeaning::Nothing("it is off by default".to_owned()),
        Meaning::SwitchOn(own) if value == "false" => FlagMeaning::Argument(format!("--{own}=false")),
        Meaning::SwitchOn(_) => FlagMeaning::Nothing("it is on by default".to_owned()),
        Meaning::Lost { without, consequence: what } if !without.contains(&value) => {
            FlagMeaning::Lost(what.to_owned())
        }
        Meaning::Lost { .. } => FlagMeaning::Nothing("Fairway does the same without it".to_owned()),
        Meaning::Needless(why) => FlagMeaning::Nothing(why.to_owned()),
        Meaning::Address(own) | Meaning::OfThisNamespace(own) => {
            FlagMeaning::Lost(format!("give --{own} in extraArgs by hand"))
        }
        Meaning::InternalNodes if value == "true" => FlagMeaning::Lost(
            "set status.publishNodes to internal if the addresses of no Service are published".to_owned(),
        ),
        Meaning::InternalNodes => FlagMeaning::Nothing("it is off by default".to_owned()),
        Meaning::Port(_) | Meaning::Status => FlagMeaning::Lost("set it by hand".to_owned()),
    }
}

/// The controller that a program belongs to, by its file name.
fn dialect_of(program: &str) -> Option<Dialect> {
    let name = program.rsplit('/').next()?;
    Dialect::ALL.into_iter().find(|dialect| dialect.program() == name)
}

struct Translation<'n> {
    dialect: Dialect,
    namespace: Option<&'n str>,
    arguments: Vec<String>,
    /// The port of each listener.
    ports: table::Ports,
    writes_status: bool,
    /// Whether to publish the internal addresses of nodes if no flag names the addresses.
    internal_nodes: bool,
    lost: Vec<String>,
}

impl<'n> Translation<'n> {
    fn new(dialect: Dialect, program: &str, namespace: Option<&'n str>) -> Self {
        let arguments = [program, "run", "--kubernetes"].map(str::to_owned).into();
        let (ports, writes_status, lost) = (dialect.ports(), dialect.writes_status(), dialect.always_lost());
        Self { dialect, namespace, arguments, ports, writes_status, internal_nodes: false, lost }
    }

    fn add_foreign_flag(&mut self, flag: &Flag, flag_given: &GivenFlag) {
        let value = flag_given.value.as_str();
        let is_true = matches!(value, "true" | "1" | "t" | "T" | "TRUE" | "True");
        match flag.meaning {
            Meaning::Is(own) => self.set_argument(own, value),
            Meaning::Address(own) => {
                let value = if value.starts_with(':') { format!("0.0.0.0{value}") } else { value.to_owned() };
                self.set_argument(own, &value);
            }
            Meaning::OfThisNamespace(own) => match self.namespace {
                Some(namespace) => self.set_argument(own, &format!("{namespace}/{value}")),
                None => {
                    self.add_lost(flag_given, "the namespace is unknown because POD_NAMESPACE is not set");
                }
            },
            Meaning::Port(place) => match value.parse() {
                Ok(port) => *self.ports.port_mut(place) = port,
                Err(_) => self.add_lost(flag_given, "is not a port"),
            },
            Meaning::Switch(own) => {
                let switch = format!("--{own}");
                self.arguments.retain(|argument| *argument != switch);
                self.arguments.extend(is_true.then_some(switch));
            }
            Meaning::SwitchOn(own) => self.set_argument(own, if is_true { "true" } else { "false" }),
            Meaning::Status => self.writes_status = is_true,
            Meaning::InternalNodes => self.internal_nodes = is_true,
            Meaning::Lost { without, .. } if without.contains(&value) => {}
            Meaning::Lost { consequence, .. } | Meaning::Needless(consequence) => {
                self.add_lost(flag_given, consequence);
            }
        }
    }

    /// Adds a flag of Fairway itself.
    fn add_own_flag(&mut self, flag_given: &GivenFlag) {
        self.arguments.push(flag_given.text.clone());
    }

    /// Sets an argument. The last one wins, as in Go.
    fn set_argument(&mut self, flag: &str, value: &str) {
        let beginning = format!("--{flag}=");
        self.arguments.retain(|argument| !argument.starts_with(&beginning));
        self.arguments.push(beginning + value);
    }

    fn add_lost(&mut self, flag_given: &GivenFlag, consequence: &str) {
        self.lost.push(format!("{}: {consequence}", flag_given.text));
    }

    fn finish(mut self) -> TranslatedCommandLine {
        for (own, value) in self.dialect.defaults() {
            if !is_given(&self.arguments, own) {
                self.arguments.push(format!("--{own}={value}"));
            }
        }
        if !self.writes_status {
            self.arguments.retain(|argument| !argument.starts_with("--publish-"));
            if !is_given(&self.arguments, "no-status") {
                self.arguments.push("--no-status".to_owned());
            }
        } else if self.dialect.publishes_nodes()
            && !self.arguments.iter().any(|argument| argument.starts_with("--publish-"))
        {
            let kind = if self.internal_nodes { "internal" } else { "external" };
            self.arguments.push(format!("--publish-nodes={kind}"));
        }
        for (own, address) in self.ports.addresses() {
            if !is_given(&self.arguments, own) {
                self.arguments.push(format!("--{own}={address}"));
            }
        }
        TranslatedCommandLine { arguments: self.arguments, lost: self.lost }
    }
}

/// Whether Fairway's flag `own` is among the arguments.
fn is_given(arguments: &[String], name: &str) -> bool {
    let mut flags = arguments.iter().filter_map(|argument| argument.strip_prefix("--"));
    flags.any(|flag| flag.split('=').next() == Some(name))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use fairway_objects::manifest;

    use super::*;
    use crate::args::Command;

    /// Translates a line, checks that `fairway run` accepts it, and returns the arguments and the warnings.
    fn run(line: &str) -> (Vec<String>, Vec<String>) {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let TranslatedCommandLine { arguments, lost } = translate(&words, Some("ingress")).unwrap();
        let Command::Run(run) = Cli::try_parse_from(&arguments).unwrap().command else {
            panic!("{arguments:?}")
        };
        run.validated().unwrap();
        run.options().unwrap();
        (arguments[2..].to_vec(), lost)
    }

    #[test]
    fn the_manifest_of_ingress_nginx_for_clouds_starts() {
        let (arguments, lost) = run(
            "fairway /nginx-ingress-controller --publish-service=ingress-nginx/ingress-nginx-controller \
             --election-id=ingress-nginx-leader --controller-class=k8s.io/ingress-nginx --ingress-class=nginx \
             --configmap=ingress-nginx/ingress-nginx-controller --validating-webhook=:8443 \
             --validating-webhook-certificate=/usr/local/certificates/cert \
             --validating-webhook-key=/usr/local/certificates/key",
        );
        assert_eq!(
            arguments,
            [
                "--kubernetes",
                "--publish-service=ingress-nginx/ingress-nginx-controller",
                "--election-id=ingress-nginx-leader",
                "--controller-class=k8s.io/ingress-nginx",
                "--ingress-class=nginx",
                "--configmap=ingress-nginx/ingress-nginx-controller",
                "--webhook=0.0.0.0:8443",
                "--webhook-certificate=/usr/local/certificates/cert",
                "--webhook-key=/usr/local/certificates/key",
                "--healthz=ready",
                "--http=0.0.0.0:80",
                "--https=0.0.0.0:443",
                "--admin=127.0.0.1:10255",
                "--probe=0.0.0.0:10254",
            ]
        );
        assert_eq!(lost, [""; 0]);
    }

    #[test]
    fn the_manifests_of_ingress_nginx_for_bare_metal_and_kind_start() {
        let common = "/nginx-ingress-controller --election-id=ingress-nginx-leader \
             --controller-class=k8s.io/ingress-nginx --ingress-class=nginx \
             --configmap=ingress-nginx/ingress-nginx-controller --validating-webhook=:8443 \
             --validating-webhook-certificate=/usr/local/certificates/cert \
             --validating-webhook-key=/usr/local/certificates/key";
        for (more, which) in [("", "external"), (" --report-node-internal-ip-address", "internal")] {
            let (arguments, lost) = run(&format!("{common}{more}"));
            assert_eq!(lost, [""; 0]);
            assert!(arguments.contains(&format!("--publish-nodes={which}")), "{arguments:?}");
        }
        let (arguments, lost) = run(&format!(
            "{common} --watch-ingress-without-class=true --enable-metrics=false --publish-status-address=localhost"
        ));
        assert_eq!(lost, [""; 0]);
        for own in ["--watch-ingress-without-class", "--publish-status-address=localhost"] {
            assert!(arguments.iter().any(|argument| argument == own), "{own} {arguments:?}");
        }
        assert!(!arguments.iter().any(|argument| argument.starts_with("--publish-nodes")), "{arguments:?}");
    }

    /// `fairway run` accepts the arguments of deploy/fairway.yaml.
    #[test]
    fn the_arguments_of_the_plain_manifest_are_accepted() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/fairway.yaml");
        let text = std::fs::read_to_string(file).unwrap();
        let sections = manifest::sections(&text);
        let documents = sections.iter().map(|it| manifest::parse(it).unwrap().unwrap().to_json());
        let workload = documents.into_iter().find(|it| it["kind"] == "Deployment").unwrap();
        let container = &workload["spec"]["template"]["spec"]["containers"][0];
        let args = container["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap());
        let arguments: Vec<_> = std::iter::once("fairway").chain(args).collect();
        let Command::Run(run) = Cli::try_parse_from(&arguments).unwrap().command else {
            panic!("{arguments:?}")
        };
        run.validated().unwrap();
        run.options().unwrap();
        assert!(arguments.len() > 10, "{arguments:?}");
    }

    #[test]
    fn the_manifest_of_nginx_inc_starts() {
        let (arguments, lost) = run(
            "/nginx-ingress -nginx-configmaps=nginx-ingress/nginx-config -default-server-tls-secret nginx-ingress/secret \
             -report-ingress-status -external-service=nginx-ingress -enable-prometheus-metrics -v=3",
        );
        assert_eq!(
            arguments,
            [
                "--kubernetes",
                "--configmap=nginx-ingress/nginx-config",
                "--default-certificate=nginx-ingress/secret",
                "--publish-service=ingress/nginx-ingress",
                "--controller-class=nginx.org/ingress-controller",
                "--ingress-class=nginx",
                "--election-id=nginx-ingress-leader-election",
                "--http=0.0.0.0:80",
                "--https=0.0.0.0:443",
                "--admin=127.0.0.1:8082",
                "--probe=0.0.0.0:8081,0.0.0.0:9113",
            ]
        );
        assert_eq!(lost.len(), 1, "{lost:?}");
    }

    #[test]
    fn status_is_written_where_the_other_controller_would_write_it() {
        let has = |line: &str| run(line).0.contains(&"--no-status".to_owned());
        assert!(has("/nginx-ingress -nginx-configmaps=a/b"));
        assert!(!has("/nginx-ingress -report-ingress-status"));
        assert!(!has("/nginx-ingress-controller"));
        assert!(!has("/nginx-ingress-controller --update-status"));
        assert!(has("/nginx-ingress-controller --update-status=false"));
    }

    #[test]
    fn flags_without_effect_give_warnings_and_fairways_own_flags_pass() {
        let (arguments, lost) = run(
            "fairway --configmap a/b --default-backend-service=a/c --enable-metrics=false --v=2 --access-log json \
             --sync-rate-limit=0.5 --enable-ssl-passthrough --nonsense=1 --http-port=8080 --http-port=8081",
        );
        assert!(arguments.contains(&"--access-log=json".to_owned()), "{arguments:?}");
        assert!(arguments.contains(&"--http=0.0.0.0:8081".to_owned()), "{arguments:?}");
        assert!(arguments.contains(&"--default-backend=a/c".to_owned()), "{arguments:?}");
        let flags: Vec<_> = lost.iter().map(|lost| lost.split(':').next().unwrap()).collect();
        assert_eq!(flags, ["--sync-rate-limit=0.5", "--nonsense=1"]);
    }

    #[test]
    fn repeated_flags_and_fairways_own_flags_appear_once() {
        let (arguments, lost) = run(
            "/nginx-ingress-controller --watch-ingress-without-class=false --watch-ingress-without-class \
             --watch-ingress-without-class=true --http=127.0.0.1:8080 --update-status=false --no-status",
        );
        assert_eq!(lost, [""; 0]);
        let occurrences =
            |flag: &str| arguments.iter().filter(|it| it.split('=').next() == Some(flag)).count();
        for own in ["--watch-ingress-without-class", "--http", "--https", "--no-status"] {
            assert_eq!(occurrences(own), 1, "{own} {arguments:?}");
        }
        assert!(arguments.contains(&"--http=127.0.0.1:8080".to_owned()), "{arguments:?}");
    }

    #[test]
    fn native_histograms_geoip_downloads_and_the_version_are_named_as_lost() {
        let (arguments, lost) =
            run("/nginx-ingress-controller --bucket-factor=1.1 --max-buckets 50 --maxmind-retries-count=3 \
             --maxmind-retries-timeout=1s --version --publish-status-address=192.0.2.1");
        let of_what = ["native histograms", "native histograms", "--geoip", "--geoip", "prints it"];
        assert_eq!(lost.len(), of_what.len(), "{lost:?}");
        assert!(lost.iter().zip(of_what).all(|(lost, what)| lost.contains(what)), "{lost:?}");
        assert!(arguments.contains(&"--election-id=ingress-controller-leader".to_owned()), "{arguments:?}");
        let (_, lost) = run("/nginx-ingress-controller --bucket-factor=0 --publish-status-address=192.0.2.1");
        assert_eq!(lost, [""; 0]);
    }

    #[test]
    fn command_lines_of_fairway_are_not_translated() {
        for line in
            ["fairway run --kubernetes", "fairway", "fairway --help", "fairway --version", "fairway -h"]
        {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            assert_eq!(translate(&words, None), None, "{line}");
        }
    }

    #[test]
    fn the_table_names_only_existing_flags_of_fairway() {
        let run = Cli::command();
        let run = run.find_subcommand("run").unwrap();
        let known: Vec<_> = run.get_arguments().filter_map(|argument| argument.get_long()).collect();
        for dialect in Dialect::ALL {
            for own in dialect.own_flags() {
                assert!(known.contains(&own), "{own}");
            }
        }
    }
}
