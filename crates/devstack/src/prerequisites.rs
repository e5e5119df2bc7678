//! Checks that all files and programs that a run needs are there, before anything is started.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tidegate_fakes::unused_port;
use tokio::process::Command;

use super::error::LocalError;
use super::place::Place;
use super::setup::{Infra, Setup};

/// The Python packages that ministack and the deployment script import.
const MODULES: &str = "ministack boto3 yaml";
const FIND_MODULES: &str = "import importlib.util as u, sys; \
     print(' '.join(m for m in sys.argv[1:] if u.find_spec(m) is None))";
const CDK_APP: &str = "infra/cdk/build/bin/tidegate.js";

/// Files that a run uses, all of them there.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) python: PathBuf,
    pub(super) script: PathBuf,
    pub(super) stack: StackFile,
    pub(super) scheduler: PathBuf,
    pub(super) poller: PathBuf,
    pub(super) sandbox: PathBuf,
}

/// The source of the stack's description.
#[derive(Clone, Debug)]
pub(super) enum StackFile {
    Sam(PathBuf),
    /// The CDK app, compiled to JavaScript.
    Cdk(PathBuf),
}

impl Files {
    /// Looks for all of them, and for the Python packages.
    pub(super) async fn find(setup: &Setup) -> Result<Self, LocalError> {
        let Setup { root, python, bin_dir, .. } = setup;
        let place = Place::of_this_program();
        let file = |path: &str, remedy| present(&root.join(path), "the file", remedy);
        let binary =
            |name: &str| present(&bin_dir.join(name), "the binary", place.program_remedy());
        let files = Self {
            python: present(python, "the Python", place.python_remedy())?,
            script: file("infra/local/local_aws.py", place.file_remedy())?,
            stack: match setup.settings.infra {
                Infra::Sam => StackFile::Sam(file("infra/sam/template.yaml", place.file_remedy())?),
                Infra::Cdk => StackFile::Cdk(file(CDK_APP, place.cdk_remedy())?),
            },
            scheduler: binary("scheduler")?,
            poller: binary("poller")?,
            sandbox: binary("ses-sandbox")?,
        };
        modules(&files.python, place.python_remedy()).await?;
        Ok(files)
    }

    /// The SQS sandbox's binary, which not every run needs.
    pub(super) fn sqs_sandbox(&self) -> Result<PathBuf, LocalError> {
        let remedy = Place::of_this_program().program_remedy();
        present(&self.sandbox.with_file_name("sqs-sandbox"), "the binary", remedy)
    }
}

fn present(path: &Path, what: &str, remedy: &str) -> Result<PathBuf, LocalError> {
    let missing = || LocalError::Missing {
        what: format!("{what} {}", path.display()),
        remedy: remedy.to_owned(),
    };
    // Programs are started in other folders, so paths must be absolute.
    if path.is_file() { std::path::absolute(path).map_err(|_| missing()) } else { Err(missing()) }
}

async fn modules(python: &Path, remedy: &str) -> Result<(), LocalError> {
    let mut command = Command::new(python);
    command.args(["-I", "-c", FIND_MODULES]).args(MODULES.split(' '));
    command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let program = python.display().to_string();
    let output = command.output().await;
    let output = output.map_err(|source| LocalError::Start { program, source })?;
    let missing = String::from_utf8_lossy(&output.stdout).trim().replace(' ', ", ");
    if output.status.success() && missing.is_empty() {
        return Ok(());
    }
    let what = if output.status.success() { missing } else { "a Python that works".to_owned() };
    let what = format!("{what} (in {})", python.display());
    Err(LocalError::Missing { what, remedy: remedy.to_owned() })
}

/// A port on loopback that is free now: the requested one, or any.
pub(super) fn port(asked: Option<u16>, option: &'static str) -> Result<u16, LocalError> {
    let found = match asked {
        Some(port) => TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map(|_| port),
        None => unused_port(),
    };
    match (found, asked) {
        (Ok(port), _) => Ok(port),
        (Err(error), Some(port)) if error.kind() == io::ErrorKind::AddrInUse => {
            Err(LocalError::PortTaken { port, option })
        }
        (Err(source), _) => {
            let program = match asked {
                Some(port) => format!("a server on port {port} ({option})"),
                None => "a server on a free port".to_owned(),
            };
            Err(LocalError::Start { program, source })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::tests::setup;

    #[test]
    fn a_taken_port_is_named_with_the_option_that_asked_for_it() {
        let holder = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let taken = holder.local_addr().unwrap().port();
        let error = port(Some(taken), "--port").unwrap_err();
        assert!(error.is_usage());
        let expected =
            format!("port {taken} is taken: end the program that holds it, or leave out --port");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }

    #[test]
    fn a_free_port_is_the_one_asked_for_or_any() {
        // Other programs hold ports, too: one of these thousand is free.
        let free = (20_000..21_000).find_map(|asked| Some((asked, port(Some(asked), "").ok()?)));
        let (asked, given) = free.unwrap();
        assert_eq!(given, asked);
        assert_ne!(port(None, "--port").unwrap(), 0);
    }

    #[tokio::test]
    async fn what_is_missing_is_named_with_what_to_do() {
        let setup = Setup { python: PathBuf::from("/nonexistent/python"), ..setup() };
        let error = Files::find(&setup).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "not found: the Python /nonexistent/python; run `make tools`, or name another Python with --python"
        );
        assert!(error.is_usage());
    }

    #[tokio::test]
    async fn a_python_that_is_none_is_told() {
        let error = modules(Path::new("/bin/false"), "do it").await.unwrap_err().to_string();
        assert!(
            error.starts_with("not found: a Python that works (in /bin/false); do it"),
            "{error}"
        );
    }
}
