//! A Python with the engines, the origin and the test runner, at the versions that were tried:
//! a virtual environment under `target/`, made once for each list of requirements.

use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

/// The pinned list, relative to the tree.
const REQUIREMENTS: &str = "tools/end_to_end/requirements.txt";

/// The environment's interpreter; the environment is made if it is not there yet.
pub fn prepare(root: &Path) -> io::Result<PathBuf> {
    let requirements = root.join(REQUIREMENTS);
    let folder =
        root.join("target").join(format!("python-{:016x}", hash(&fs::read(&requirements)?)));
    let python = folder.join("bin").join("python");
    let done = folder.join("done");
    if done.exists() {
        return Ok(python);
    }
    make_environment(&folder)?;
    let mut install = Command::new(&python);
    install.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--requirement",
    ]);
    succeed(install.arg(&requirements), "pip could not install the requirements")?;
    fs::write(done, "")?;
    Ok(python)
}

/// Where the tests and the lab live.
pub fn folder(root: &Path) -> PathBuf {
    root.join("tools").join("end_to_end")
}

fn make_environment(folder: &Path) -> io::Result<()> {
    let make = || {
        let mut command = Command::new("python3");
        command.args(["-m", "venv", "--clear"]).arg(folder).stdout(Stdio::null());
        succeed(&mut command, "python3 could not make a virtual environment")
    };
    // Debian's python3 comes without the part that makes environments.
    make().or_else(|_| install_venv().and_then(|()| make()))
}

fn install_venv() -> io::Result<()> {
    let missing = "python3 cannot make a virtual environment: install python3-venv";
    succeed(Command::new("apt-get").args(["update", "--quiet=2"]), missing)?;
    let mut install = Command::new("apt-get");
    install.args(["install", "--yes", "--quiet=2", "--no-install-recommends", "python3-venv"]);
    succeed(install.env("DEBIAN_FRONTEND", "noninteractive"), missing)
}

fn succeed(command: &mut Command, otherwise: &str) -> io::Result<()> {
    let status =
        command.status().map_err(|error| io::Error::other(format!("{otherwise}: {error}")))?;
    if status.success() { Ok(()) } else { Err(io::Error::other(otherwise)) }
}

/// A name for the list's content: another list is another environment.
fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = nilas_base::HashSet::<u8>::default().hasher().build_hasher();
    hasher.write(bytes);
    hasher.finish()
}
