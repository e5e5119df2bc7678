//! The place of the files that a run needs: a checkout, or the prefix below which a package installed them; and
//! the folder of a run, with its logs and its report.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use tidegate_adapters::aws::stack::LocalRuns;
use time::OffsetDateTime;
use time::macros::format_description;

use crate::error::LocalError;

/// Below a prefix: this program and those of a local run.
const PROGRAMS: &str = "libexec/tidegate";
/// Below a prefix: what deploys the stack, as in a checkout.
const FILES: &str = "share/tidegate";

/// Decides where a run looks for its files unless its options say so, and what to do where one is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The current folder is Tidegate's checkout.
    Checkout,
    /// A package is installed below this prefix, such as `/usr/local` or a virtual environment.
    Installed(PathBuf),
}

impl Place {
    /// The place of this program.
    pub(super) fn of_this_program() -> Self {
        let program = env::current_exe().and_then(|program| program.canonicalize());
        program.map_or(Self::Checkout, |program| Self::of(&program))
    }

    fn of(program: &Path) -> Self {
        let folder = program.parent().filter(|folder| folder.ends_with(PROGRAMS));
        let prefix = folder.and_then(Path::parent).and_then(Path::parent);
        prefix.map_or(Self::Checkout, |prefix| Self::Installed(prefix.to_owned()))
    }

    fn find(&self, in_checkout: &str, below_prefix: &str) -> PathBuf {
        match self {
            Self::Checkout => in_checkout.into(),
            Self::Installed(prefix) => prefix.join(below_prefix),
        }
    }

    pub(super) fn bin_dir(&self) -> PathBuf {
        self.find("target/local", PROGRAMS)
    }

    pub(super) fn root(&self) -> PathBuf {
        self.find(".", FILES)
    }

    /// The Python of the virtual environment that the package is in, else the first on the `PATH`.
    pub(super) fn python(&self) -> PathBuf {
        let Self::Installed(prefix) = self else { return ".tools/local/bin/python".into() };
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(prefix.join("bin")).chain(env::split_paths(&path));
        let found = folders.map(|folder| folder.join("python3")).find(|python| python.is_file());
        found.unwrap_or_else(|| "python3".into())
    }

    /// The folder in which each run makes its own.
    pub(super) fn runs(&self, root: &Path) -> PathBuf {
        match self {
            Self::Checkout if root == Path::new(".") => ".local".into(),
            Self::Checkout => root.join(".local"),
            Self::Installed(_) => LocalRuns::of_user().folder().to_owned(),
        }
    }

    pub(super) const fn remedies(&self) -> &'static Remedies {
        match self {
            Self::Checkout => &Remedies {
                python: "run `make tools`, or name another Python with --python",
                program: "run `make binaries`, or name another folder with --bin-dir",
                file: "run it in Tidegate's checkout, or name that with --root",
                cdk: "run `make cdk`",
            },
            Self::Installed(_) => &Remedies {
                python: "install it with `pip install 'tidegate[local]'` into a virtual environment (or run \
                         `uvx 'tidegate[local]' local`), or name a Python that has it with --python",
                program: "install Tidegate again, or name another folder with --bin-dir",
                file: "install Tidegate again, or name a checkout with --root",
                cdk: "only a checkout has it: run `make cdk` there, and name it with --root",
            },
        }
    }
}

/// The advice for each kind of thing that may be missing.
pub(super) struct Remedies {
    pub(super) python: &'static str,
    pub(super) program: &'static str,
    pub(super) file: &'static str,
    pub(super) cdk: &'static str,
}

/// The folder asked for, or a new one in `runs`, named for the time.
pub(super) fn create_folder(
    asked: Option<&Path>,
    runs: &Path,
    now_ns: u64,
) -> Result<PathBuf, LocalError> {
    if let Some(asked) = asked {
        fs::create_dir_all(asked).map_err(LocalError::write(asked))?;
        return Ok(asked.to_owned());
    }
    fs::create_dir_all(runs).map_err(LocalError::write(runs))?;
    let name = format!("run-{}", stamp(now_ns));
    let others = (2..).map(|number| format!("{name}-{number}"));
    for name in std::iter::once(name.clone()).chain(others) {
        let path = runs.join(name);
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(LocalError::write(&path)(error)),
        }
    }
    Ok(runs.to_owned())
}

pub(super) fn write(folder: &Path, name: &str, content: &str) -> Result<PathBuf, LocalError> {
    let path = folder.join(name);
    fs::write(&path, content).map_err(LocalError::write(&path))?;
    Ok(path)
}

/// A time that sorts as text, in UTC.
fn stamp(now_ns: u64) -> String {
    let format = format_description!("[year][month][day]-[hour][minute][second]");
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(now_ns)).ok();
    at.and_then(|at| at.format(format).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_a_package_finds_what_lies_below_its_prefix() {
        let place = Place::of(Path::new("/opt/venv/libexec/tidegate/devstack"));
        assert_eq!(place, Place::Installed("/opt/venv".into()));
        assert_eq!(place.bin_dir(), Path::new("/opt/venv/libexec/tidegate"));
        assert_eq!(place.root(), Path::new("/opt/venv/share/tidegate"));
    }

    #[test]
    fn any_other_program_expects_a_checkout() {
        for program in
            ["/src/tidegate/target/local/devstack", "/usr/local/bin/devstack", "devstack"]
        {
            let place = Place::of(Path::new(program));
            assert_eq!(place, Place::Checkout, "{program}");
            assert_eq!(place.root(), Path::new("."));
            assert_eq!(place.runs(Path::new("/src/tidegate")), Path::new("/src/tidegate/.local"));
        }
    }

    #[test]
    fn two_runs_of_one_second_have_two_folders() {
        let root = std::env::temp_dir().join(format!("tidegate-folder-{}", std::process::id()));
        let folders =
            [(); 2].map(|()| create_folder(None, &root, 1_795_206_967_000_000_000).unwrap());
        let names = folders.map(|folder| folder.file_name().unwrap().to_str().unwrap().to_owned());
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(names, ["run-20261120-203607", "run-20261120-203607-2"]);
    }
}
