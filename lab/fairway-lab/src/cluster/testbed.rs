//! A cluster of the run's own: the testbed, brought up and taken down by its command.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

/// A running testbed. Every run stops it with [`Testbed::down`], even after an error.
pub struct Testbed {
    command: PathBuf,
    name: String,
}

impl Testbed {
    /// Starts a testbed. The first start builds Kubernetes, which takes minutes; the testbed prints that itself.
    ///
    /// # Errors
    /// It does not start; started parts are removed again.
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

    /// Removes the testbed with everything in it.
    ///
    /// # Errors
    /// Parts remain; the text names them.
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
