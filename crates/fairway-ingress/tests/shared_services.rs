//! Ingresses with the same Service and port share load balancing, sessions and canaries, as in ingress-nginx. Each
//! test checks the translation after several edits, and that it equals a translation from scratch.

use fairway_ingress::{Translation, Translator, translate};
use fairway_model::{Action, BackendKey, SessionKey, SessionStart, Stickiness};
use fairway_objects::diagnostic::DiagnosticScope;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::options::{Compat, HostOwnership, Options};
use fairway_objects::resources::{Change, Resources};
use serde_json::json;

use crate::support::{NOW, object};

/// A cluster and its translation.
struct Site {
    options: Options,
    resources: Resources,
    translator: Translator,
    now: Translation,
}

/// A new Ingress.
struct NewIngress {
    namespace: &'static str,
    name: &'static str,
    day: u32,
    routes: Vec<(&'static str, &'static str, &'static str)>,
    annotations: Vec<(&'static str, &'static str)>,
}

fn ingress(name: &'static str, day: u32, host: &'static str, service: &'static str) -> NewIngress {
    NewIngress { namespace: "a", name, day, routes: vec![(host, "/", service)], annotations: Vec::new() }
}

impl NewIngress {
    fn and(mut self, host: &'static str, path: &'static str, service: &'static str) -> Self {
        self.routes.push((host, path, service));
        self
    }

    fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.annotations.push((name, value));
        self
    }

    fn strict(self) -> Self {
        self.with("fairway.dev/compat", "strict")
    }

    fn canary(self, weight: &'static str) -> Self {
        self.with("canary", "true").with("canary-weight", weight)
    }

    fn sticky(self, cookie: &'static str) -> Self {
        self.with("affinity", "cookie").with("session-cookie-name", cookie)
    }

    fn change(&self) -> Change {
        let rule = |(host, path, service): &(&str, &str, &str)| {
            let backend = json!({"service": {"name": service, "port": {"number": 80}}});
            let paths = json!([{"path": path, "pathType": "Prefix", "backend": backend}]);
            json!({"host": host, "http": {"paths": paths}})
        };
        let named = |(name, value): &(&str, &str)| {
            let prefix = if name.contains('/') { "" } else { "nginx.ingress.kubernetes.io/" };
            (format!("{prefix}{name}"), json!(value))
        };
        let annotations: serde_json::Map<_, _> = self.annotations.iter().map(named).collect();
        let created = format!("2026-01-{:02}T00:00:00Z", self.day);
        let metadata = json!({"name": self.name, "namespace": self.namespace, "annotations": annotations,
                              "creationTimestamp": created});
        let rules: Vec<_> = self.routes.iter().map(rule).collect();
        let spec = json!({"ingressClassName": "fairway", "rules": rules});
        let value = json!({"kind": "Ingress", "apiVersion": "networking.k8s.io/v1", "metadata": metadata, "spec": spec});
        Change::Set(object(value), None)
    }
}

impl Site {
    /// Services `main`, `second`, `canary` and `later` in namespaces `a` and `b`.
    fn new(options: Options) -> Self {
        let mut resources = Resources::default();
        for (namespace, name) in
            ["a", "b"].into_iter().flat_map(|it| ["main", "second", "canary", "later"].map(|name| (it, name)))
        {
            let metadata = json!({"name": name, "namespace": namespace});
            let spec = json!({"ports": [{"name": "http", "port": 80}]});
            resources.apply(Change::Set(
                object(json!({"kind": "Service", "metadata": metadata, "spec": spec})),
                None,
            ));
        }
        let mut translator = Translator::new(options.clone());
        let now = translator.update(&resources, &[], NOW);
        Self { options, resources, translator, now }
    }

    fn with_ingresses(ingresses: &[NewIngress]) -> Self {
        let mut site = Self::new(Options::default());
        ingresses.iter().for_each(|wanted| site.put(wanted));
        site
    }

    fn put(&mut self, ingress: &NewIngress) {
        self.apply(ingress.change());
    }

    fn remove(&mut self, name: &str) {
        self.apply(Change::Remove(ObjectRef::new(Kind::Ingress, ObjectKey::new("a", name))));
    }

    fn apply(&mut self, change: Change) {
        let changed = [change.reference()];
        self.resources.apply(change);
        self.now = self.translator.update(&self.resources, &changed, NOW);
        let scratch = translate(&self.resources, &self.options, NOW);
        let messages = |it: &Translation| it.diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(messages(&self.now), messages(&scratch));
        assert_eq!(self.now.config, scratch.config);
    }

    /// The backends of each requested host, in rule order, with their weights.
    fn backends<const N: usize>(&self, hosts: [&str; N]) -> [String; N] {
        hosts.map(|name| {
            let mut hosts = self.now.config.hosts.values();
            let host = hosts.find(|host| host.key.host.to_string() == name).unwrap();
            let rules = host.routes.iter().flat_map(|route| &route.rules);
            let shown = rules.filter_map(|rule| match &rule.action {
                Action::Forward(shares) => Some(
                    shares
                        .iter()
                        .map(|it| format!("{}x{}", it.weight, it.backend))
                        .collect::<Vec<_>>()
                        .join("+"),
                ),
                Action::FixedResponse(_) => None,
            });
            shown.collect::<Vec<_>>().join(" ").replace("a/", "").replace(":80", "")
        })
    }

    /// The cookie of the only backend of a host.
    fn cookie(&self, host: &str) -> Option<(String, Stickiness, SessionStart)> {
        let [backend] = self.backends([host]);
        let key = backend.strip_prefix("1xmain").unwrap();
        let key: BackendKey = format!("a/main:80{key}").as_str().into();
        let backend = &self.now.config.backends[&key];
        match backend.session.as_ref()? {
            SessionKey::Cookie(it) => Some((it.name.to_string(), it.stickiness, it.begins)),
            SessionKey::Hash(_) => None,
        }
    }

    /// The Ingresses with this diagnostic, and another one that it names.
    fn named_with(&self, code: &str) -> Vec<String> {
        let found = self.now.diagnostics.iter().filter(|found| found.code == code);
        let other = |problem: &str| {
            let rest = problem.split("Ingress ").nth(1).unwrap_or_default();
            rest.split([' ', ',']).next().unwrap_or_default().to_owned()
        };
        found
            .map(|found| format!("{}: {} {}", found.severity, found.origin.name, other(&found.problem)))
            .collect()
    }
}

#[test]
fn the_oldest_ingress_of_a_service_decides_about_its_balancing() {
    let hashing = || ingress("hashing", 2, "b.test", "main").with("upstream-hash-by", "$host");
    let mut site = Site::with_ingresses(&[
        ingress("plain", 3, "c.test", "main"),
        hashing(),
        ingress("elsewhere", 4, "d.test", "second"),
    ]);
    let hosts = ["b.test", "c.test", "d.test"];
    assert_eq!(site.backends(hosts), ["1xmain;hash=$host", "1xmain;hash=$host", "1xsecond"]);
    assert_eq!(site.named_with("shared-service"), ["note: plain a/hashing"]);
    site.put(&ingress("oldest", 1, "a.test", "main").with("load-balance", "ewma"));
    assert_eq!(site.backends(hosts), ["1xmain;ewma", "1xmain;ewma", "1xsecond"]);
    assert_eq!(site.named_with("shared-service"), ["warning: hashing a/oldest", "note: plain a/oldest"]);
    site.remove("oldest");
    assert_eq!(site.backends(hosts), ["1xmain;hash=$host", "1xmain;hash=$host", "1xsecond"]);
    site.put(&hashing().strict());
    assert_eq!(site.backends(hosts), ["1xmain;hash=$host", "1xmain", "1xsecond"], "it gives nothing");
    site.put(&ingress("oldest", 1, "a.test", "main").with("load-balance", "ewma"));
    assert_eq!(site.backends(hosts), ["1xmain;hash=$host", "1xmain;ewma", "1xsecond"], "and takes nothing");
    site.remove("hashing");
    site.remove("oldest");
    assert_eq!(site.backends(["c.test"]), ["1xmain"]);
    assert_eq!(site.named_with("shared-service"), [""; 0]);
}

#[test]
fn a_port_by_its_name_and_by_its_number_are_two_upstreams() {
    let mut site = Site::with_ingresses(&[ingress("plain", 2, "a.test", "main")]);
    let backend = json!({"service": {"name": "main", "port": {"name": "http"}}});
    let rules = json!([{"host": "b.test", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}]);
    let annotations = json!({"nginx.ingress.kubernetes.io/load-balance": "ewma"});
    let metadata = json!({"name": "named", "namespace": "a", "annotations": annotations, "creationTimestamp": "2026-01-01T00:00:00Z"});
    let spec = json!({"ingressClassName": "fairway", "rules": rules});
    let value =
        json!({"kind": "Ingress", "apiVersion": "networking.k8s.io/v1", "metadata": metadata, "spec": spec});
    site.apply(Change::Set(object(value), None));
    assert_eq!(site.backends(["a.test", "b.test"]), ["1xmain", "1xmain:http;ewma"]);
}

#[test]
fn sessions_apply_to_every_path_of_a_service_and_start_where_an_ingress_enables_them() {
    use SessionStart::{Elsewhere, Here};
    use Stickiness::{Balanced, Persistent};
    let sticky_ingress =
        || ingress("one", 2, "b.test", "main").sticky("one").with("affinity-mode", "persistent");
    let mut site = Site::with_ingresses(&[ingress("plain", 1, "a.test", "main"), sticky_ingress()]);
    assert_eq!(site.cookie("a.test"), Some(("one".to_owned(), Persistent, Elsewhere)));
    assert_eq!(site.cookie("b.test"), Some(("one".to_owned(), Persistent, Here)));
    assert_eq!(site.named_with("shared-service"), ["note: plain a/one"]);
    site.put(&ingress("two", 3, "c.test", "main").sticky("two"));
    assert_eq!(site.cookie("a.test"), Some(("two".to_owned(), Persistent, Elsewhere)));
    assert_eq!(
        site.cookie("b.test"),
        Some(("two".to_owned(), Persistent, Here)),
        "the youngest has the cookie"
    );
    assert_eq!(site.cookie("c.test"), Some(("two".to_owned(), Persistent, Here)), "the oldest has the mode");
    assert_eq!(
        site.named_with("shared-service"),
        ["note: plain a/one", "warning: one a/two", "warning: two a/one"]
    );
    site.remove("one");
    assert_eq!(site.cookie("a.test"), Some(("two".to_owned(), Balanced, Elsewhere)));
    site.put(&sticky_ingress().strict());
    assert_eq!(site.cookie("a.test"), Some(("two".to_owned(), Balanced, Elsewhere)));
    assert_eq!(site.cookie("b.test"), Some(("one".to_owned(), Persistent, Here)));
    site.remove("two");
    assert_eq!(site.cookie("a.test"), None);
}

#[test]
fn a_session_starts_at_a_path_of_another_ingress_if_one_enables_it() {
    let mut site = Site::with_ingresses(&[
        ingress("plain", 1, "a.test", "main"),
        ingress("other", 2, "a.test", "main").with("affinity", "cookie"),
    ]);
    assert_eq!(
        site.cookie("a.test").unwrap().2,
        SessionStart::Here,
        "it lost the path, and still asks for it"
    );
    site.put(&ingress("other", 2, "b.test", "main").with("affinity", "cookie"));
    assert_eq!(site.cookie("a.test").unwrap().2, SessionStart::Elsewhere);
}

#[test]
fn a_canary_acts_for_every_path_with_the_service_and_only_the_oldest_does() {
    let main = || ingress("main", 1, "a.test", "main").and("a.test", "/more", "main");
    let mut site = Site::with_ingresses(&[
        main(),
        ingress("other", 2, "b.test", "main"),
        ingress("apart", 3, "c.test", "main").strict(),
    ]);
    site.put(&ingress("next", 4, "a.test", "canary").canary("10"));
    let (both, hosts) = ("90xmain+10xcanary", ["a.test", "b.test", "c.test"]);
    let twice = format!("{both} {both}");
    assert_eq!(site.backends(hosts), [&*twice, both, "1xmain"]);
    assert_eq!(site.named_with("shared-service"), ["warning: main a/next", "warning: other a/next"]);
    site.put(&ingress("late", 5, "b.test", "later").canary("50"));
    assert_eq!(site.backends(hosts), [&*twice, both, "1xmain"]);
    assert_eq!(site.named_with("canary-unused"), ["warning: late a/next"]);
    site.put(&ingress("next", 4, "a.test", "canary").canary("20"));
    assert_eq!(site.backends(["b.test"]), ["80xmain+20xcanary"], "its share is that of now");
    site.put(&ingress("next", 4, "a.test", "canary").canary("20").strict());
    assert_eq!(
        site.backends(hosts),
        ["80xmain+20xcanary 50xmain+50xlater", "50xmain+50xlater", "1xmain"],
        "a strict one acts for its own path"
    );
    site.remove("next");
    site.put(&ingress("main", 1, "a.test", "second"));
    assert_eq!(site.backends(hosts), ["1xsecond", "50xmain+50xlater", "1xmain"]);
    site.remove("other");
    assert_eq!(site.backends(["a.test", "c.test"]), ["1xsecond", "1xmain"], "nothing joins them any more");
}

#[test]
fn canaries_of_a_service_use_the_share_and_balancing_of_the_oldest() {
    let mut site = Site::with_ingresses(&[
        ingress("main", 1, "a.test", "main"),
        ingress("far", 2, "x.test", "main"),
        ingress("other", 3, "b.test", "second"),
        ingress("other-next", 5, "b.test", "canary").canary("50").with("load-balance", "ewma"),
        ingress("main-next", 6, "a.test", "canary").canary("10"),
    ]);
    let hosts = ["a.test", "x.test", "b.test"];
    let main = "50xmain+50xcanary;ewma";
    assert_eq!(site.backends(hosts), [main, main, "50xsecond+50xcanary;ewma"]);
    let messages =
        ["warning: main-next a/other-next", "note: main-next a/other-next", "warning: far a/main-next"];
    assert_eq!(site.named_with("shared-service"), messages);
    site.put(&ingress("other-next", 5, "b.test", "canary").canary("40"));
    let main = "60xmain+40xcanary";
    assert_eq!(site.backends(hosts), [main, main, "60xsecond+40xcanary"], "also where it has no path");
    site.remove("other-next");
    let main = "90xmain+10xcanary";
    assert_eq!(site.backends(hosts), [main, main, "1xsecond"]);
}

#[test]
fn strict_installations_share_only_on_request() {
    let mut options = Options::default();
    options.hosts.compat = Compat::Strict;
    let mut site = Site::new(options);
    site.put(&ingress("one", 1, "a.test", "main").with("load-balance", "ewma"));
    site.put(&ingress("two", 2, "b.test", "main"));
    site.put(&ingress("next", 3, "a.test", "canary").canary("10"));
    assert_eq!(site.backends(["a.test", "b.test"]), ["90xmain;ewma+10xcanary", "1xmain"]);
    site.put(
        &ingress("one", 1, "a.test", "main").with("load-balance", "ewma").with("fairway.dev/compat", "nginx"),
    );
    site.put(&ingress("two", 2, "b.test", "main").with("fairway.dev/compat", "nginx"));
    assert_eq!(site.backends(["a.test", "b.test"]), ["90xmain;ewma+10xcanary", "1xmain;ewma"]);
    site.put(&ingress("two", 2, "b.test", "main").with("fairway.dev/compat", "maybe"));
    assert_eq!(site.backends(["b.test"]), ["1xmain"]);
    assert_eq!(site.named_with("invalid-annotation"), ["warning: two "]);
}

#[test]
fn where_hosts_have_owners_a_canary_keeps_to_the_paths_that_it_names() {
    let canary = NewIngress { namespace: "b", ..ingress("next", 3, "a.test", "canary").canary("10") };
    let mains = || {
        [
            ingress("main", 1, "a.test", "main").with("fairway.dev/shared-hosts", "b"),
            ingress("other", 2, "b.test", "main"),
        ]
    };
    for (ownership, other) in
        [(HostOwnership::Off, "90xmain+10xb/canary"), (HostOwnership::Namespace, "1xmain")]
    {
        let mut options = Options::default();
        options.hosts.ownership = ownership;
        let mut site = Site::new(options);
        mains().iter().for_each(|main| site.put(main));
        site.put(&canary);
        assert_eq!(site.backends(["a.test", "b.test"]), ["90xmain+10xb/canary", other]);
    }
}

#[test]
fn adding_and_removing_one_of_thousands_of_ingresses_of_a_service_is_cheap() {
    let mut site = Site::new(Options::default());
    let numbered = |at: u32| {
        let backend = json!({"service": {"name": "main", "port": {"number": 80}}});
        let paths = json!([{"path": "/", "pathType": "Prefix", "backend": backend}]);
        let annotations = json!({"nginx.ingress.kubernetes.io/affinity": "cookie"});
        let created = format!("2026-01-01T00:{:02}:{:02}Z", at / 60, at % 60);
        let metadata = json!({"name": format!("i{at}"), "namespace": "a", "annotations": annotations, "creationTimestamp": created});
        let rules = json!([{"host": format!("h{at}.test"), "http": {"paths": paths}}]);
        let spec = json!({"ingressClassName": "fairway", "rules": rules});
        Change::Set(
            object(
                json!({"kind": "Ingress", "apiVersion": "networking.k8s.io/v1", "metadata": metadata, "spec": spec}),
            ),
            None,
        )
    };
    let mut touched = |change: Change| {
        let changed = [change.reference()];
        site.resources.apply(change);
        let now = site.translator.update(&site.resources, &changed, NOW);
        let hosts = site.now.config.hosts.diff(&now.config.hosts).count();
        let scopes = now.diagnostics.changed_since(&site.now.diagnostics);
        let scopes = scopes.filter(|scope| matches!(scope, DiagnosticScope::Host(_))).count();
        site.now = now;
        (hosts, scopes)
    };
    for at in 0..2_000 {
        assert_eq!(touched(numbered(at)), (1, 0));
    }
    for at in 0..1_000 {
        let key = ObjectKey::new("a", &format!("i{at}"));
        assert_eq!(touched(Change::Remove(ObjectRef::new(Kind::Ingress, key))), (1, 0), "always the oldest");
    }
}
