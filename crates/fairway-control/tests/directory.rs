//! The directory source against real files: what editors, kubectl and volume mounts do to them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use fairway_control::directory::{DirectoryUpdate, ManifestTree, WatchedDirectory};
use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::object::Object;
use fairway_objects::resources::Change;
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(20);

/// A watched directory and the consumer's state.
struct DirectoryFixture {
    dir: TempDir,
    updates: Receiver<DirectoryUpdate>,
    _directory: WatchedDirectory,
    /// The `spec.type` of every Service, by name.
    services: BTreeMap<String, String>,
    diagnostics: Vec<Diagnostic>,
    removals: usize,
}

impl DirectoryFixture {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            write(&dir.path().join(name), text);
        }
        Self::over(dir)
    }

    fn over(dir: TempDir) -> Self {
        let (tell, told) = channel();
        let tell = move |news| drop(tell.send(news));
        let directory = WatchedDirectory::start(&dir.path().join("conf"), tell).unwrap();
        let (services, diagnostics) = Default::default();
        let mut world =
            Self { dir, updates: told, _directory: directory, services, diagnostics, removals: 0 };
        assert!(world.step(LONG), "the first news comes at once");
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Handles one update.
    fn step(&mut self, timeout: Duration) -> bool {
        let Ok(news) = self.updates.recv_timeout(timeout) else {
            return false;
        };
        for change in news.changes {
            match change {
                Change::Set(Object::Service(service), _) => {
                    let kind = service.spec.clone().and_then(|spec| spec.type_).unwrap_or_default();
                    self.services.insert(service.metadata.name.clone().unwrap(), kind);
                }
                Change::Remove(reference) => {
                    self.removals += 1;
                    self.services.remove(&*reference.key.name);
                }
                other => panic!("{other:?}"),
            }
        }
        self.diagnostics = news.diagnostics;
        true
    }

    /// Handles updates until the Services are these.
    fn wait_for(&mut self, services: &[(&str, &str)]) {
        let expected: BTreeMap<_, _> =
            services.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect();
        self.wait_until(&format!("{expected:?}"), |world| world.services == expected);
    }

    fn wait_for_codes(&mut self, codes: &[&str]) {
        self.wait_until(&format!("{codes:?}"), |world| {
            world.diagnostics.iter().map(|diagnostic| diagnostic.code).eq(codes.iter().copied())
        });
    }

    fn wait_until(&mut self, expectation: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + LONG;
        while !holds(self) {
            let time_left = deadline.saturating_duration_since(Instant::now());
            assert!(
                self.step(time_left),
                "wanted {expectation}, have {:?} and {:#?}",
                self.services,
                self.diagnostics
            );
        }
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn service(name: &str, kind: &str) -> String {
    format!("---\napiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\nspec:\n  type: {kind}\n")
}

#[test]
fn a_new_file_a_change_and_a_removal_are_detected() {
    let mut world = DirectoryFixture::new(&[("conf/a.yaml", &service("a", "One"))]);
    world.wait_for(&[("a", "One")]);
    write(&world.path("conf/b.yml"), &service("b", "One"));
    world.wait_for(&[("a", "One"), ("b", "One")]);
    write(&world.path("conf/a.yaml"), &service("a", "Two"));
    world.wait_for(&[("a", "Two"), ("b", "One")]);
    fs::remove_file(world.path("conf/b.yml")).unwrap();
    world.wait_for(&[("a", "Two")]);
}

#[test]
fn many_new_files_give_the_same_result_as_single_ones() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..1200 {
        let (name, twice) = (format!("s{number:04}"), format!("s{:04}", number / 2));
        let text = format!("{}{}", service(&name, "One"), service(&twice, "Two"));
        write(&dir.path().join(format!("{number:04}.yaml")), &text);
    }
    write(&dir.path().join("0099-broken.yaml"), "kind: [Service\n");
    let (mut at_once, mut one_by_one) = (ManifestTree::new(dir.path()), ManifestTree::new(dir.path()));
    let paths = one_by_one.walk().unwrap();
    let slowly: Vec<_> = paths.iter().flat_map(|path| one_by_one.read(std::slice::from_ref(path))).collect();
    assert_eq!(format!("{:?}", at_once.read_all().unwrap()), format!("{slowly:?}"));
    assert_eq!((at_once.len(), at_once.diagnostics()), (1201, one_by_one.diagnostics()));
    assert!(slowly.len() >= 1200 && !at_once.diagnostics().is_empty());
}

#[test]
fn an_atomic_rename_is_one_change() {
    let mut world = DirectoryFixture::new(&[("conf/a.yaml", &service("a", "One"))]);
    write(&world.path("conf/.a.yaml.swp"), &service("x", "Hidden"));
    write(&world.path("conf/a.yaml.tmp"), &service("a", "Two"));
    fs::rename(world.path("conf/a.yaml.tmp"), world.path("conf/a.yaml")).unwrap();
    world.wait_for(&[("a", "Two")]);
    assert_eq!(world.removals, 0);
}

#[test]
fn saving_by_moving_and_rewriting_loses_nothing() {
    let mut world = DirectoryFixture::new(&[
        ("conf/a.yaml", &service("a", "One")),
        ("conf/z.yaml", &service("z", "One")),
    ]);
    fs::rename(world.path("conf/a.yaml"), world.path("conf/a.yaml~")).unwrap();
    write(&world.path("conf/4913"), "");
    fs::remove_file(world.path("conf/4913")).unwrap();
    write(&world.path("conf/a.yaml"), &service("a", "Two"));
    fs::remove_file(world.path("conf/a.yaml~")).unwrap();
    world.wait_for(&[("a", "Two"), ("z", "One")]);
    fs::remove_file(world.path("conf/a.yaml")).unwrap();
    write(&world.path("conf/a.yaml"), &service("a", "Three"));
    world.wait_for(&[("a", "Three"), ("z", "One")]);
    assert_eq!(world.removals, 0);
}

#[test]
fn a_file_that_is_being_written_is_read_when_it_is_complete() {
    let both = format!("{}{}", service("a", "One"), service("b", "One"));
    let mut world = DirectoryFixture::new(&[("conf/a.yaml", &both)]);
    let mut file = fs::File::create(world.path("conf/a.yaml")).unwrap();
    file.write_all(service("a", "Two").as_bytes()).unwrap();
    file.flush().unwrap();
    file.write_all(service("b", "Two").as_bytes()).unwrap();
    drop(file);
    world.wait_for(&[("a", "Two"), ("b", "Two")]);
    assert_eq!(world.removals, 0, "the truncated file was never taken for the whole");
}

#[test]
fn a_document_that_does_not_parse_keeps_its_objects_and_its_neighbours_change() {
    let mut world =
        DirectoryFixture::new(&[("conf/a.yaml", &format!("{}{}", service("a", "One"), service("b", "One")))]);
    let broken = format!("{}---\napiVersion: v1\nkind: [Service\n", service("b", "Two"));
    write(&world.path("conf/a.yaml"), &broken);
    world.wait_for(&[("a", "One"), ("b", "Two")]);
    world.wait_for_codes(&["not-yaml"]);
    let file = world.diagnostics[0].origin.source.clone().unwrap();
    assert!(file.file.ends_with("conf/a.yaml") && file.line >= 9, "{file:?}");
    write(&world.path("conf/a.yaml"), &service("b", "Two"));
    world.wait_for(&[("b", "Two")]);
    world.wait_for_codes(&[]);
}

#[test]
fn a_list_and_json_are_read() {
    let list = r#"{"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"type": "One"}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "b"}, "spec": {"type": "Two"}}]}"#;
    let mut world = DirectoryFixture::new(&[("conf/deep/er/list.json", list)]);
    world.wait_for(&[("a", "One"), ("b", "Two")]);
}

#[test]
fn the_first_file_by_name_owns_an_object_and_the_next_takes_over() {
    let files = [("conf/a.yaml", service("x", "First")), ("conf/b.yaml", service("x", "Second"))];
    let mut world = DirectoryFixture::new(&[(files[0].0, &files[0].1), (files[1].0, &files[1].1)]);
    world.wait_for(&[("x", "First")]);
    world.wait_for_codes(&["duplicate-object"]);
    assert!(world.diagnostics[0].origin.source.as_ref().unwrap().file.ends_with("b.yaml"));
    fs::remove_file(world.path("conf/a.yaml")).unwrap();
    world.wait_for(&[("x", "Second")]);
    world.wait_for_codes(&[]);
    assert_eq!(world.removals, 0);
}

/// Changes of Services: their types, and removals.
fn of_services(changes: &[Change]) -> Vec<String> {
    let text_of = |change: &Change| match change {
        Change::Set(Object::Service(service), _) => {
            service.spec.as_ref().and_then(|spec| spec.type_.clone()).unwrap_or_default()
        }
        Change::Remove(reference) => format!("no {}", reference.key.name),
        other => panic!("{other:?}"),
    };
    changes.iter().map(text_of).collect()
}

#[test]
fn an_object_of_several_files_passes_to_the_next_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = ManifestTree::new(dir.path());
    let path = |name: &str| dir.path().join(name);
    for (name, kind) in [("a.yaml", "A"), ("b.yaml", "B"), ("c.yaml", "C")] {
        write(&path(name), &service("x", kind));
    }
    assert_eq!(of_services(&tree.read_all().unwrap()), ["A"]);
    let codes = |tree: &ManifestTree| tree.diagnostics().iter().map(|it| it.code).collect::<Vec<_>>();
    let (twice, broken) = ("duplicate-object", "not-yaml");
    assert_eq!(codes(&tree), [twice, twice]);
    write(&path("a.yaml"), "kind: [Service\n");
    assert_eq!(of_services(&tree.read(&[path("a.yaml")])), [""; 0], "it stays while the file is broken");
    assert_eq!(codes(&tree), [broken, twice, twice]);
    write(&path("a.yaml"), &service("y", "A"));
    assert_eq!(of_services(&tree.read(&[path("a.yaml")])), ["A", "B"]);
    assert_eq!(codes(&tree), [twice]);
    fs::remove_file(path("b.yaml")).unwrap();
    fs::rename(path("c.yaml"), path("d.yaml")).unwrap();
    assert_eq!(of_services(&tree.read_all().unwrap()), ["C"]);
    assert_eq!((tree.len(), codes(&tree)), (2, vec![]));
    write(&path("a.yaml"), &service("x", "A"));
    assert_eq!(of_services(&tree.read(&[path("a.yaml")])), ["A", "no y"]);
    assert_eq!(codes(&tree), [twice]);
    fs::remove_file(path("a.yaml")).unwrap();
    fs::remove_file(path("d.yaml")).unwrap();
    assert_eq!(of_services(&tree.read(&[path("d.yaml"), path("a.yaml")])), ["no x"]);
    assert!(tree.is_empty() && tree.diagnostics().is_empty());
}

#[test]
fn a_mounted_volume_changes_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let conf = dir.path().join("conf");
    write(&conf.join("..v1/a.yaml"), &service("a", "One"));
    write(&conf.join("..v1/b.yaml"), &service("b", "One"));
    symlink("..v1", conf.join("..data")).unwrap();
    symlink("..data/a.yaml", conf.join("a.yaml")).unwrap();
    symlink("..data/b.yaml", conf.join("b.yaml")).unwrap();
    let mut world = DirectoryFixture::over(dir);
    world.wait_for(&[("a", "One"), ("b", "One")]);
    write(&conf.join("..v2/a.yaml"), &service("a", "Two"));
    write(&conf.join("..v2/b.yaml"), &service("b", "Two"));
    symlink("..v2", conf.join("..data_tmp")).unwrap();
    fs::rename(conf.join("..data_tmp"), conf.join("..data")).unwrap();
    fs::remove_dir_all(conf.join("..v1")).unwrap();
    world.wait_for(&[("a", "Two"), ("b", "Two")]);
    assert_eq!(world.removals, 0);
}

#[test]
fn whole_directories_come_and_go() {
    let mut world = DirectoryFixture::new(&[("conf/a.yaml", &service("a", "One"))]);
    write(&world.path("conf/team/b.yaml"), &service("b", "One"));
    world.wait_for(&[("a", "One"), ("b", "One")]);
    write(&world.path("aside/c.yaml"), &service("c", "One"));
    fs::rename(world.path("aside"), world.path("conf/other")).unwrap();
    world.wait_for(&[("a", "One"), ("b", "One"), ("c", "One")]);
    write(&world.path("conf/other/c.yaml"), &service("c", "Two"));
    world.wait_for(&[("a", "One"), ("b", "One"), ("c", "Two")]);
    fs::rename(world.path("conf/team"), world.path("elsewhere")).unwrap();
    world.wait_for(&[("a", "One"), ("c", "Two")]);
}

#[test]
fn a_file_in_place_of_a_subdirectory_removes_its_objects() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("a.yaml"), &service("a", "One"));
    write(&dir.path().join("team/b.yaml"), &service("b", "One"));
    let mut tree = ManifestTree::new(dir.path());
    assert_eq!(tree.read_all().unwrap().len(), 2);
    fs::remove_dir_all(dir.path().join("team")).unwrap();
    write(&dir.path().join("team"), "");
    let changes = tree.read_all().unwrap();
    let [Change::Remove(gone)] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!(&*gone.key.name, "b");
    assert_eq!((tree.len(), tree.diagnostics()), (1, Vec::new()));
}

#[test]
fn a_file_in_place_of_the_directory_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (root, file) = (dir.path().join("conf"), dir.path().join("conf/a.yaml"));
    write(&file, &service("a", "One"));
    let mut tree = ManifestTree::new(&root);
    assert_eq!(tree.read_all().unwrap().len(), 1);
    fs::remove_dir_all(&root).unwrap();
    write(&root, "");
    assert!(tree.read(&[file]).is_empty() && tree.read_all().is_err());
    assert_eq!(tree.len(), 1);
}

fn policy(requests: &str) -> String {
    format!(
        "apiVersion: fairway.dev/v1alpha1\nkind: SecurityPolicy\nmetadata: {{name: login}}\nspec:\n  \
         targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}}]\n  \
         rateLimits: [{{requests: {requests}}}]\n"
    )
}

/// Changes of the only policy.
fn change_kinds(changes: &[Change]) -> Vec<&'static str> {
    let text_of = |change: &Change| match change {
        Change::Set(Object::SecurityPolicy(policy), _) if policy.spec.refused.is_some() => "refused",
        Change::Set(..) => "read",
        Change::Remove(_) => "gone",
        other => panic!("{other:?}"),
    };
    changes.iter().map(text_of).collect()
}

#[test]
fn an_unreadable_policy_is_refused_until_it_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = ManifestTree::new(dir.path());
    let mut after = |text: &str| {
        write(&dir.path().join("policy.yaml"), text);
        change_kinds(&tree.read(&[dir.path().join("policy.yaml")]))
    };
    assert_eq!(after(&policy("'600'")), ["refused"]);
    assert_eq!(after(&policy("600")), ["read"]);
    assert_eq!(after(&policy("'600'")), [""; 0], "what was known of it stays");
    assert_eq!(after(""), ["gone"]);
    assert_eq!(after(&policy("'600'")), ["refused"]);
}

#[test]
fn a_policy_that_is_readable_in_one_of_two_files_is_not_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = ManifestTree::new(dir.path());
    let mut after = |name: &str, text: &str| {
        write(&dir.path().join(name), text);
        change_kinds(&tree.read(&[dir.path().join(name)]))
    };
    assert_eq!(after("b.yaml", &policy("600")), ["read"]);
    assert_eq!(after("a.yaml", &policy("'600'")), [""; 0]);
    assert_eq!(after("b.yaml", ""), ["refused"]);
    assert_eq!(after("c.yaml", &policy("600")), ["read"]);
    assert_eq!(after("a.yaml", ""), [""; 0]);
}

#[test]
fn objects_stay_while_the_directory_is_replaced() {
    let mut world = DirectoryFixture::new(&[
        ("conf/a.yaml", &service("a", "One")),
        ("next/a.yaml", &service("a", "Two")),
    ]);
    fs::rename(world.path("conf"), world.path("before")).unwrap();
    world.wait_for_codes(&["unreadable"]);
    world.wait_for(&[("a", "One")]);
    fs::rename(world.path("next"), world.path("conf")).unwrap();
    world.wait_for(&[("a", "Two")]);
    world.wait_for_codes(&[]);
    write(&world.path("conf/b.yaml"), &service("b", "One"));
    world.wait_for(&[("a", "Two"), ("b", "One")]);
    assert_eq!(world.removals, 0);
}

#[test]
fn a_binary_file_keeps_the_objects_of_the_file() {
    let mut world = DirectoryFixture::new(&[("conf/a.yaml", &service("a", "One"))]);
    fs::write(world.path("conf/a.yaml"), b"a: \xff\n").unwrap();
    world.wait_for_codes(&["unreadable"]);
    world.wait_for(&[("a", "One")]);
    fs::set_permissions(world.path("conf/a.yaml"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(world.path("conf/a.yaml")).unwrap();
    world.wait_for(&[]);
}

#[test]
fn a_missing_directory_is_refused_at_the_start() {
    let error = WatchedDirectory::start(Path::new("no/such/directory"), drop).unwrap_err();
    assert!(error.to_string().contains("no/such/directory"), "{error}");
}

/// Reading such a file may never end, as with `/proc/kmsg`, which only root can open.
#[test]
fn a_link_to_a_file_of_procfs_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    symlink("/proc/version", dir.path().join("version.yaml")).unwrap();
    write(&dir.path().join("empty.yaml"), "");
    let mut tree = ManifestTree::new(dir.path());
    assert!(tree.read_all().unwrap().is_empty());
    assert_eq!((tree.len(), tree.diagnostics()), (2, Vec::new()));
}
