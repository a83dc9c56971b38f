//! A cluster of the run's own: the testbed, brought up and taken down by its command.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::peers::Errand;

/// A testbed that is up. [`Testbed::down`] ends it; a run calls that however it ends.
pub struct Testbed {
    command: PathBuf,
    name: String,
}

/// What the testbed builds once, by the beginnings of their names in its cache.
const BUILT: [&str; 3] = ["kubernetes-", "containerd-", "coredns-"];
/// How long that is likely to take, and bringing a testbed up, seconds.
const BUILD_S: f64 = 300.0;
const UP_S: f64 = 15.0;

impl Testbed {
    /// What bringing one up will take here, given the laboratory's cache.
    #[must_use]
    pub fn errand(cache: &Path) -> Errand {
        let kept = cache.with_file_name("testbed");
        let entries = std::fs::read_dir(kept).into_iter().flatten().flatten();
        let names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        if BUILT.iter().all(|name| names.iter().any(|kept| kept.starts_with(name))) {
            return Errand {
                what: "bring a testbed up; its Kubernetes is in the cache".to_owned(),
                seconds: UP_S,
            };
        }
        let what = "build Kubernetes once from its Go modules, and bring a testbed up".to_owned();
        Errand { what, seconds: BUILD_S + UP_S }
    }

    /// Brings a testbed up. The first one ever builds Kubernetes, which takes minutes and says so itself.
    ///
    /// # Errors
    /// It does not come up; what came up is taken down again.
    pub fn up(command: &Path, name: &str) -> anyhow::Result<Self> {
        let testbed = Self { command: command.to_owned(), name: name.to_owned() };
        if let Err(error) = testbed.order(&["up"]) {
            return Err(match testbed.down() {
                Ok(()) => error,
                Err(left) => error.context(format!("and it cannot be taken down: {left:#}")),
            });
        }
        Ok(testbed)
    }

    /// Loads image archives.
    ///
    /// # Errors
    /// An archive cannot be read.
    pub fn load(&self, archives: &[PathBuf]) -> anyhow::Result<()> {
        if archives.is_empty() {
            return Ok(());
        }
        let mut words = vec!["image".to_owned(), "load".to_owned()];
        words.extend(archives.iter().map(|archive| archive.display().to_string()));
        self.order(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// A command that runs in the testbed's network, with its kubeconfig.
    #[must_use]
    pub fn inside(&self, program: &Path) -> Command {
        let mut command = Command::new(&self.command);
        command.args(["--name", &self.name, "exec"]).arg(program);
        command
    }

    /// Takes it down, with everything in it.
    ///
    /// # Errors
    /// Something of it stays; the text says what.
    pub fn down(&self) -> anyhow::Result<()> {
        self.order(&["down"])
    }

    fn order(&self, words: &[&str]) -> anyhow::Result<()> {
        let program = self.command.display();
        let status = Command::new(&self.command)
            .args(["--name", &self.name])
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .with_context(|| format!("start {program}"))?;
        anyhow::ensure!(
            status.success(),
            "{program} --name {} {} failed ({status})",
            self.name,
            words.join(" ")
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_is_built_only_where_it_is_not_in_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("lab");
        assert!(Testbed::errand(&cache).what.starts_with("build Kubernetes"));
        for name in ["kubernetes-v1-abc", "containerd-v2-abc", "coredns-v1-abc"] {
            assert!(Testbed::errand(&cache).what.starts_with("build Kubernetes"), "before {name}");
            std::fs::create_dir_all(folder.path().join("testbed").join(name)).unwrap();
        }
        assert!(Testbed::errand(&cache).what.contains("in the cache"));
    }
}
