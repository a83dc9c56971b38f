//! Cases that release/build refuses, and the install script of a release (release/install.sh), with folders and a server made
//! here: what it installs, and that it installs nothing if something is wrong. The installed programs are scripts.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use aws_lc_rs::digest::{SHA256, digest};
use tempfile::TempDir;

const WORKS: &str = "#!/bin/sh\ncase $1 in version) echo fairway 9.9.9 ;; man) echo page >$2/fairway.1 ;; *) echo completion ;; esac\n";
const FILES: [&str; 5] = [
    "bin/fairway",
    "share/bash-completion/completions/fairway",
    "share/fish/vendor_completions.d/fairway.fish",
    "share/man/man1/fairway.1",
    "share/zsh/site-functions/_fairway",
];

/// A machine with this script, with or without a release, and a folder to install to.
struct Machine {
    dir: TempDir,
    /// A folder of programs that take precedence over those of this machine.
    programs: PathBuf,
    releases: Option<String>,
}

struct Outcome {
    ok: bool,
    text: String,
    /// All files and folders below the prefix.
    installed: Vec<String>,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let programs = dir.path().join("programs");
        fs::create_dir(&programs).unwrap();
        let machine = Self { dir, programs, releases: None };
        machine.program("uname", "#!/bin/sh\ncase $1 in -s) echo Linux ;; *) echo x86_64 ;; esac\n");
        fs::copy(root().join("release/install.sh"), machine.dir.path().join("install.sh")).unwrap();
        machine
    }

    /// A machine with a release that contains this program.
    fn with_release(program: &str) -> Self {
        let mut machine = Self::new();
        let tree = machine.dir.path().join("fairway-9.9.9-linux-amd64");
        for file in FILES {
            write(&tree.join(file), "text");
        }
        write(&tree.join("bin/fairway"), program);
        let releases = machine.dir.path().join("releases");
        fs::create_dir(&releases).unwrap();
        let archive = releases.join("fairway-9.9.9-linux-amd64.tar.gz");
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(machine.dir.path()).arg("-czf").arg(&archive).arg("fairway-9.9.9-linux-amd64");
        assert!(tar.status().unwrap().success());
        let sum: String = digest(&SHA256, &fs::read(archive).unwrap())
            .as_ref()
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        fs::write(releases.join("SHA256SUMS"), format!("{sum}  fairway-9.9.9-linux-amd64.tar.gz\n")).unwrap();
        machine.releases = Some(format!("file://{}", releases.display()));
        machine
    }

    fn program(&self, name: &str, content: &str) {
        write(&self.programs.join(name), content);
    }

    fn release_file(&self, name: &str) -> PathBuf {
        self.dir.path().join("releases").join(name)
    }

    fn install(&self) -> Outcome {
        self.install_with(&self.dir.path().join("install.sh"))
    }

    fn install_with(&self, script: &Path) -> Outcome {
        let prefix = self.dir.path().join("prefix");
        let path = format!("{}:{}", self.programs.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.arg(script).arg("--prefix").arg(&prefix).env("PATH", path).env("FAIRWAY_VERSION", "9.9.9");
        command.env_remove("FAIRWAY_RELEASES").env("CARGO_TARGET_DIR", self.dir.path().join("target"));
        command.envs(self.releases.as_ref().map(|it| ("FAIRWAY_RELEASES", it)));
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        let mut installed = Vec::new();
        list(&prefix, "", &mut installed);
        Outcome { ok: output.status.success(), text, installed }
    }

    /// Checks that the script fails with this message and leaves the prefix empty.
    fn refuses(&self, part: &str) {
        let outcome = self.install();
        assert!(!outcome.ok, "{}", outcome.text);
        assert!(outcome.text.contains(part), "{}", outcome.text);
        assert!(outcome.text.contains("nothing was installed"), "{}", outcome.text);
        assert!(outcome.installed.is_empty(), "{:?}", outcome.installed);
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn list(folder: &Path, name: &str, found: &mut Vec<String>) {
    let mut entries: Vec<_> = fs::read_dir(folder).into_iter().flatten().map(Result::unwrap).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{name}{}", entry.file_name().display());
        if entry.path().is_dir() {
            let before = found.len();
            list(&entry.path(), &format!("{name}/"), found);
            if found.len() == before {
                found.push(format!("{name}/"));
            }
        } else {
            found.push(name);
        }
    }
}

#[test]
fn installs_the_binary_its_pages_and_completions_of_a_release() {
    let outcome = Machine::with_release(WORKS).install();
    assert!(outcome.ok, "{}", outcome.text);
    assert_eq!(outcome.installed, FILES);
    assert!(outcome.text.starts_with("fairway 9.9.9 is "), "{}", outcome.text);
}

#[test]
fn an_archive_with_another_checksum_is_refused() {
    let machine = Machine::with_release(WORKS);
    let archive = machine.release_file("fairway-9.9.9-linux-amd64.tar.gz");
    let mut content = fs::read(&archive).unwrap();
    content.push(0);
    fs::write(archive, content).unwrap();
    machine.refuses("it was damaged or replaced");
}

#[test]
fn an_archive_that_the_sums_do_not_list_is_refused() {
    let machine = Machine::with_release(WORKS);
    fs::write(machine.release_file("SHA256SUMS"), "").unwrap();
    machine.refuses("does not list fairway-9.9.9-linux-amd64.tar.gz");
}

#[test]
fn an_archive_that_the_release_lacks_is_refused() {
    let machine = Machine::with_release(WORKS);
    fs::remove_file(machine.release_file("fairway-9.9.9-linux-amd64.tar.gz")).unwrap();
    machine.refuses("which is not there");
}

#[test]
fn another_architecture_or_system_is_refused() {
    let machine = Machine::with_release(WORKS);
    machine.program("uname", "#!/bin/sh\ncase $1 in -s) echo Linux ;; *) echo riscv64 ;; esac\n");
    machine.refuses("there is no Fairway for riscv64");
    machine.program("uname", "#!/bin/sh\ncase $1 in -s) echo Darwin ;; *) echo arm64 ;; esac\n");
    machine.refuses("this is Darwin");
}

#[test]
fn a_server_that_refuses_is_not_taken_for_one_without_a_release() {
    let mut machine = Machine::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    machine.releases = Some(format!("http://{}", listener.local_addr().unwrap()));
    let server = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        _ = client.read(&mut [0; 4096]).unwrap();
        client
            .write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .unwrap();
    });
    machine.refuses("SHA256SUMS could not be downloaded");
    server.join().unwrap();
}

#[test]
fn a_binary_that_does_not_run_here_leaves_the_one_before() {
    let machine = Machine::with_release("#!/bin/sh\necho version GLIBC_2.34 not found >&2\nexit 1\n");
    let before = machine.dir.path().join("prefix/bin/fairway");
    write(&before, "before");
    let outcome = machine.install();
    assert!(!outcome.ok && outcome.text.contains("GLIBC_2.34 not found"), "{}", outcome.text);
    assert_eq!(outcome.installed, ["bin/fairway"]);
    assert_eq!(fs::read_to_string(before).unwrap(), "before");
}

#[test]
fn without_a_release_it_builds_in_a_checkout_and_fails_elsewhere() {
    let mut machine = Machine::new();
    machine.refuses("there is no release 9.9.9");
    machine.releases = Some(format!("file://{}", machine.dir.path().join("releases").display()));
    machine.refuses("there is no release 9.9.9");
    machine.program("cargo", &format!("#!/bin/sh\nmkdir -p $CARGO_TARGET_DIR/release\ncat >$CARGO_TARGET_DIR/release/fairway <<'END'\n{WORKS}END\nchmod +x $CARGO_TARGET_DIR/release/fairway\n"));
    let outcome = machine.install_with(&root().join("release/install.sh"));
    assert!(outcome.ok, "{}", outcome.text);
    assert_eq!(outcome.installed, FILES);
    machine.program("cargo", "#!/bin/sh\nexit 101\n");
    let outcome = machine.install_with(&root().join("release/install.sh"));
    assert!(
        !outcome.ok && outcome.text.contains("the build failed; nothing was installed"),
        "{}",
        outcome.text
    );
}

#[test]
fn a_release_of_another_version_or_for_another_architecture_is_refused() {
    let target = tempfile::tempdir().unwrap();
    let full = target.path().join("full");
    write(&full.join("precious"), "text");
    for (arguments, part) in [
        (&["9.9.9"][..], "has version"),
        (&[env!("CARGO_PKG_VERSION"), "--arch", "riscv64"], "there is no release for riscv64"),
        (&[env!("CARGO_PKG_VERSION"), "--out", full.to_str().unwrap()], "holds no release"),
    ] {
        let mut build = Command::new(root().join("release/build"));
        let output = build.args(arguments).env("CARGO_TARGET_DIR", target.path()).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && text.contains(part), "{arguments:?}: {text}");
    }
    assert!(full.join("precious").exists());
}
