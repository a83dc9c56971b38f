//! Programs of peers on this machine: the system's, and those in a root folder with a newer system, which run through that
//! folder's own loader. Finds them and reads their version; installs nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

/// The command that makes the root folder of current peers.
pub const MAKE_CURRENT: &str = "make lab-peers";
/// The root folder of current peers, below the laboratory's cache.
const CURRENT: &str = "current";
/// The folders of programs in a root folder; servers are in the first.
const PLACES: [&str; 2] = ["usr/sbin", "usr/bin"];
/// Loaders by architecture, and the folder of its libraries.
const LOADERS: [(&str, &str); 2] = [
    ("lib64/ld-linux-x86-64.so.2", "usr/lib/x86_64-linux-gnu"),
    ("lib/ld-linux-aarch64.so.1", "usr/lib/aarch64-linux-gnu"),
];

/// The release of a program selected by a name: `nginx`, `nginx@system` or `nginx@1.22`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// The program in the root folder.
    Current,
    /// The system's program of any version.
    System,
    /// Either program, with a version that starts like this.
    Version(String),
}

impl Release {
    /// The name before the `@`, and the release after it.
    ///
    /// # Errors
    /// There is nothing after the `@`.
    pub fn split_name(name: &str) -> anyhow::Result<(&str, Self)> {
        match name.split_once('@') {
            None => Ok((name, Self::Current)),
            Some((_, "")) => anyhow::bail!("{name}: `system` or a version is missing after the @"),
            Some((program, "system")) => Ok((program, Self::System)),
            Some((program, version)) => Ok((program, Self::Version(version.to_owned()))),
        }
    }

    /// The program of this release. `system` finds that of the system.
    ///
    /// # Errors
    /// It is not there; the text names the command that gets it.
    pub fn find(
        &self,
        cache: &Path,
        program: &str,
        system: impl Fn() -> anyhow::Result<PathBuf>,
    ) -> anyhow::Result<Executable> {
        let current = || Executable::in_root(&cache.join(CURRENT), program);
        match self {
            Self::Current => current()
                .with_context(|| format!("the current {program} is not here; {MAKE_CURRENT} gets it")),
            Self::System => system().map(Executable::of_system),
            Self::Version(wanted) => {
                let mut found_releases = Vec::new();
                let both = [current(), system().ok().map(Executable::of_system)];
                for found in both.into_iter().flatten() {
                    let line = found.version()?;
                    let number = number(&line);
                    if matches_release(number, wanted) {
                        return Ok(found);
                    }
                    found_releases.push(number.to_owned());
                }
                let found_text =
                    if found_releases.is_empty() { "none".to_owned() } else { found_releases.join(" and ") };
                anyhow::bail!(
                    "{program} {wanted} is not here ({found_text} is); {MAKE_CURRENT} gets the current one, and the package \
                     {program} that of the system"
                )
            }
        }
    }
}

/// Whether `number` is `release` or belongs to that series.
fn matches_release(number: &str, release: &str) -> bool {
    number.strip_prefix(release).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A program, and how it is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    program: PathBuf,
    root: Option<RootFolder>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RootFolder {
    folder: PathBuf,
    loader: PathBuf,
    libraries: PathBuf,
}

impl Executable {
    /// A program of the system.
    #[must_use]
    pub fn of_system(program: PathBuf) -> Self {
        Self { program, root: None }
    }

    /// A program in a root folder, if it exists.
    #[must_use]
    pub fn in_root(folder: &Path, name: &str) -> Option<Self> {
        let program =
            PLACES.iter().map(|place| folder.join(place).join(name)).find(|program| program.is_file())?;
        let present = |(loader, _): &&(&str, &str)| folder.join(loader).is_file();
        let (loader, libraries) = LOADERS.iter().find(present)?;
        let (loader, libraries) = (folder.join(loader), folder.join(libraries));
        Some(Self { program, root: Some(RootFolder { folder: folder.to_owned(), loader, libraries }) })
    }

    /// The program itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.program
    }

    /// The root folder that it and its libraries are in.
    #[must_use]
    pub fn root(&self) -> Option<&Path> {
        self.root.as_ref().map(|root| root.folder.as_path())
    }

    /// A command for the program, without arguments.
    #[must_use]
    pub fn command(&self) -> Command {
        let Some(root) = &self.root else { return Command::new(&self.program) };
        let mut command = Command::new(&root.loader);
        command.arg("--library-path").arg(&root.libraries).arg(&self.program);
        // OpenSSL's settings and modules belong to its release.
        command.env("OPENSSL_CONF", root.folder.join("etc/ssl/openssl.cnf"));
        command.env("OPENSSL_MODULES", root.libraries.join("ossl-modules"));
        command
    }

    /// The line with its version.
    ///
    /// # Errors
    /// It cannot be started, or prints nothing that looks like a version.
    pub fn version(&self) -> anyhow::Result<String> {
        let name = self.program.file_name().unwrap_or_default().to_string_lossy();
        let argument = match name.as_ref() {
            "caddy" => "version",
            "envoy" => "--version",
            _ => "-v",
        };
        let shown = self.program.display().to_string();
        let output = self.command().arg(argument).output();
        let output = output.with_context(|| format!("ask {shown} for its version"))?;
        let both = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        let line = both.iter().flat_map(|text| text.lines()).find(|line| number(line) != *line);
        let line = line.or_else(|| both[0].lines().next().filter(|line| line.contains('.')));
        let line = line.with_context(|| format!("{shown} {argument} printed no version"))?;
        // Some programs print the path by which they were started first, which is not part of the version.
        Ok(line.trim().replace(&shown, &name))
    }
}

/// The version number in a line, e.g. `1.22.1` in `nginx version: nginx/1.22.1`; the complete line if there is none.
#[must_use]
pub fn number(line: &str) -> &str {
    let parts = line.split(|c: char| c.is_whitespace() || c == '/' || c == ':' || c == ',');
    let mut numbers = parts
        .map(|part| part.trim_start_matches('v'))
        .filter(|part| part.contains('.') && part.starts_with(|c: char| c.is_ascii_digit()));
    numbers.next().map_or(line, |part| part.split(['-', '+']).next().unwrap_or(part))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A program that prints a version and how it was started.
    fn script(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, format!("#!/bin/sh\n{text}\n")).expect("written");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
    }

    /// A cache whose root folder has nginx 1.30.6; its loader is a script that runs its arguments.
    fn cache() -> tempfile::TempDir {
        let cache = tempfile::tempdir().expect("a folder");
        let root = cache.path().join(CURRENT);
        script(&root.join(LOADERS[0].0), "[ \"$1\" = --library-path ] && shift 2 && exec \"$@\"");
        script(&root.join("usr/sbin/nginx"), "echo nginx version: nginx/1.30.6 >&2");
        cache
    }

    fn system(cache: &tempfile::TempDir) -> anyhow::Result<PathBuf> {
        let program = cache.path().join("system/nginx");
        script(&program, "echo nginx version: nginx/1.22.1 >&2");
        Ok(program)
    }

    fn none() -> anyhow::Result<PathBuf> {
        anyhow::bail!("nginx is not installed")
    }

    #[test]
    fn a_name_selects_a_release() {
        let version = Release::Version("1.22".to_owned());
        assert_eq!(Release::split_name("nginx").expect("a name"), ("nginx", Release::Current));
        assert_eq!(Release::split_name("nginx@system").expect("a name"), ("nginx", Release::System));
        assert_eq!(Release::split_name("nginx@1.22").expect("a name"), ("nginx", version));
        assert!(Release::split_name("nginx@").is_err());
    }

    #[test]
    fn the_current_release_is_started_through_the_loader_of_its_root_folder() {
        let cache = cache();
        let found = Release::Current.find(cache.path(), "nginx", none).expect("it is there");
        assert_eq!(found.version().expect("it says so"), "nginx version: nginx/1.30.6");
        assert_eq!(found.root(), Some(cache.path().join(CURRENT).as_path()));
        let command = found.command();
        assert_eq!(command.get_program(), cache.path().join(CURRENT).join(LOADERS[0].0).as_os_str());
    }

    #[test]
    fn a_version_chooses_between_the_root_folder_and_the_system() {
        let cache = cache();
        let find =
            |text: &str| Release::Version(text.to_owned()).find(cache.path(), "nginx", || system(&cache));
        assert!(find("1.30").expect("in the root folder").root().is_some());
        assert!(find("1.22").expect("the system's").root().is_none());
        assert!(find("1.22.1").expect("the system's").root().is_none());
        // 1.2 is no series of 1.22.
        let error = find("1.2").expect_err("nobody has it").to_string();
        assert!(error.contains("1.30.6 and 1.22.1") && error.contains(MAKE_CURRENT), "{error}");
    }

    #[test]
    fn a_missing_program_is_reported_with_the_command_that_installs_it() {
        let empty = tempfile::tempdir().expect("a folder");
        let error = Release::Current.find(empty.path(), "nginx", || Ok(PathBuf::from("/bin/sh")));
        let error = error.expect_err("not the system's instead").to_string();
        assert!(error.contains("nginx") && error.contains(MAKE_CURRENT), "{error}");
        assert!(Release::System.find(empty.path(), "nginx", none).is_err());
    }

    #[test]
    fn versions_are_found_in_output_of_programs() {
        for (line, expected) in [
            ("nginx version: nginx/1.22.1", "1.22.1"),
            ("HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/", "2.6.12"),
            ("envoy  version: 5a1e/1.40.0/Clean/RELEASE/BoringSSL", "1.40.0"),
            ("Version:      v3.6.7", "3.6.7"),
            ("2.6.2", "2.6.2"),
            ("fairway 0.1.0 (abc)", "0.1.0"),
        ] {
            assert_eq!(number(line), expected, "{line}");
        }
    }
}
