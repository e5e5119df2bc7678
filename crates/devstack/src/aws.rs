//! The local AWS: ministack with the real template deployed into it, and the SES sandbox.
//!
//! Checks that all files and programs that a run needs are there, before anything is started.
//!
//! The place of the files that a run needs: a checkout, or the prefix below which a package installed them; and
//! the folder of a run, with its logs and its report.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use std::{env, fs, io};

use http::Method;
use tidegate_adapters::aws::stack::{LocalEndpoint, LocalRuns, Stack};
use tidegate_adapters::aws::{Clients, DynamoLedger, SqsQueues};
use tidegate_fakes::unused_port;
use time::OffsetDateTime;
use time::macros::format_description;
use tokio::process::Command;
use tokio::time::Instant;

use crate::error::LocalError;
use crate::programs::Http;
use crate::programs::{
    DeployedStack, MINISTACK, ProcessGroup, ProgramOutput, REGION, Scratch, Server, deploy,
    ministack, wait_until_ready,
};
use crate::run::SesSandboxClient;
use crate::setup::{Infra, Setup, Sqs};

/// Credentials that are worth nothing anywhere else.
pub(super) const KEY: &str = "test";

/// ministack looks at its rules this often; and the scheduler's rule has this period.
const RULES_TICK: Duration = Duration::from_secs(10);
const RULE_PERIOD: Duration = Duration::from_mins(1);

/// A local AWS that runs Tidegate. [`LocalAws::stop`] ends it; dropping it kills all its programs
/// and removes its temporary files.
#[derive(Debug)]
pub struct LocalAws {
    // The programs end before their files go.
    pub(super) process_group: ProcessGroup,
    _scratch: Scratch,
    files: Files,
    parameters: Vec<(String, String)>,
    /// The name by which `tidegate --local=RUN` finds it.
    run: Option<String>,
    pub folder: PathBuf,
    ministack: Http,
    pub sandbox: SesSandboxClient,
    pub sdk: Sdk,
    pub stack: DeployedStack,
    /// The time at which EventBridge first fires the scheduler.
    pub first_trigger: Instant,
}

/// Access to the queues and the ledger.
#[derive(Debug)]
pub struct Sdk {
    /// The address of the queues: ministack's, or the SQS sandbox's.
    pub sqs_endpoint: String,
    pub queues: SqsQueues,
    clients: Clients,
}

impl LocalAws {
    /// Looks for what is needed, starts the programs, and deploys the template. Logs and temporary files
    /// go into `folder`.
    ///
    /// # Errors
    /// [`LocalError`], and nothing is left running.
    pub async fn start(setup: &Setup, folder: &Path) -> Result<Self, LocalError> {
        let files = Files::find(setup).await?;
        let port = free_port(setup.port, "--port")?;
        let sandbox_port = match setup.sandbox_port {
            Some(_) => free_port(setup.sandbox_port, "--sandbox-port")?,
            None => 0,
        };
        let scratch = Scratch::create(folder)?;
        let mut process_group = ProcessGroup::default();
        let started = Instant::now();
        let log = folder.join("ministack.log");
        process_group.start(
            MINISTACK,
            ministack(&files.python, port, scratch.path()),
            ProgramOutput::Log(&log),
        )?;
        let ses = Server { name: "ses-sandbox", binary: &files.sandbox, port: sandbox_port };
        let url = ses.start(&mut process_group, setup.sandbox_options(), folder).await?;
        let mut parameters = setup.parameters(&url);
        let ministack = Http::new(format!("http://127.0.0.1:{port}"));
        let mut sqs_url = ministack.base().to_owned();
        if setup.settings.sqs == Sqs::Sandbox {
            // Its queues are created at their first use, under the names that the stack gives them.
            let sqs = Server { name: "sqs-sandbox", binary: &files.sqs_sandbox()?, port: 0 };
            sqs_url = sqs.start(&mut process_group, ["--create"], folder).await?;
            parameters.push(("SqsEndpointUrl".to_owned(), sqs_url.clone()));
        }
        wait_until_ready(&mut process_group, &ministack, &log).await?;
        let stack = deploy(&process_group, &files, ministack.base(), &parameters).await?;
        let endpoint = LocalEndpoint {
            stack: stack.name.clone(),
            endpoint: ministack.base().to_owned(),
            region: REGION.to_owned(),
            key: KEY.to_owned(),
        };
        endpoint
            .write(folder)
            .map_err(|source| LocalError::Write { path: folder.to_owned(), source })?;
        // A run that cannot be listed works all the same.
        let run = LocalRuns::of_user().add(folder).ok();
        let clients = endpoint.clients().await.with_sqs_at(Some(sqs_url.clone()));
        Ok(Self {
            process_group,
            _scratch: scratch,
            files,
            parameters,
            folder: folder.to_owned(),
            run,
            sandbox: SesSandboxClient::at(&url),
            sdk: Sdk { sqs_endpoint: sqs_url, queues: clients.queues(), clients },
            ministack,
            stack,
            first_trigger: first_trigger(started, Instant::now()),
        })
    }

    /// Deploys once more into the running stack, with some parameters changed: an upgrade.
    ///
    /// # Errors
    /// [`LocalError::Deploy`], and the stack is what it was before.
    pub async fn update(&mut self, changed: &[(&str, &str)]) -> Result<(), LocalError> {
        for (name, value) in changed {
            self.parameters.retain(|(other, _)| other != name);
            self.parameters.push(((*name).to_owned(), (*value).to_owned()));
        }
        let endpoint = self.ministack.base();
        self.stack = deploy(&self.process_group, &self.files, endpoint, &self.parameters).await?;
        Ok(())
    }

    /// The stack, as the operator's tools see it.
    pub(super) async fn operated(&self) -> Result<Stack, LocalError> {
        let (stack, clients) = (&self.stack, self.sdk.clients.clone());
        let run = Some(self.folder.clone());
        Ok(Stack::open(&stack.name, &stack.outputs, clients, run).await?)
    }

    /// The address at which ministack answers, such as `http://127.0.0.1:4566`.
    pub fn endpoint(&self) -> &str {
        self.ministack.base()
    }

    /// The option by which `tidegate` finds this run.
    pub(super) fn option(&self) -> String {
        self.run.as_ref().map_or_else(|| "--local".to_owned(), |run| format!("--local={run}"))
    }

    /// The ledger.
    ///
    /// # Errors
    /// [`LocalError::NoOutput`] where the stack names no table.
    pub fn ledger(&self) -> Result<DynamoLedger, LocalError> {
        Ok(self.sdk.clients.ledger(self.stack.output("LedgerTable")?))
    }

    /// An error where ministack or the sandbox has ended.
    ///
    /// # Errors
    /// [`LocalError::Ended`], with the end of its log.
    pub fn check(&mut self) -> Result<(), LocalError> {
        self.process_group.check()
    }

    /// Invokes a function as an event, as EventBridge does; `function` is the output that names it.
    ///
    /// # Errors
    /// [`LocalError`] where it was not accepted.
    pub async fn invoke(
        &self,
        function: &'static str,
        payload: &serde_json::Value,
    ) -> Result<(), LocalError> {
        let path = format!("/2015-03-31/functions/{}/invocations", self.stack.output(function)?);
        let headers = [("x-amz-invocation-type", "Event"), ("content-type", "application/json")];
        self.ministack.call(Method::POST, &path, &headers, payload.to_string()).await.map(drop)
    }
}

/// The time at which EventBridge first fires the scheduler. ministack looks at its rules every
/// 10 s, and a rule of one minute is due one minute after it was made.
fn first_trigger(started: Instant, deployed: Instant) -> Instant {
    let due = (deployed + RULE_PERIOD).duration_since(started).as_secs();
    let tick = RULES_TICK.as_secs();
    started + Duration::from_secs(due.div_ceil(tick) * tick)
}

/// The Python packages that ministack and the deployment script import.
const MODULES: &str = "ministack boto3 yaml";
const FIND_MODULES: &str = "import importlib.util as u, sys; \
     print(' '.join(m for m in sys.argv[1:] if u.find_spec(m) is None))";

/// Files that a run uses, all of them there.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) python: PathBuf,
    pub(super) script: PathBuf,
    /// The stack's description: the SAM template, or the CDK app, compiled to JavaScript.
    pub(super) stack: PathBuf,
    /// The script's option for it.
    pub(super) stack_option: &'static str,
    pub(super) scheduler: PathBuf,
    pub(super) poller: PathBuf,
    pub(super) sandbox: PathBuf,
}

impl Files {
    /// Looks for all of them, and for the Python packages.
    pub(super) async fn find(setup: &Setup) -> Result<Self, LocalError> {
        let Setup { root, python, bin_dir, .. } = setup;
        let remedies = Place::of_this_program().remedies();
        let file = |path: &str, remedy| present(&root.join(path), "the file", remedy);
        let binary = |name: &str| present(&bin_dir.join(name), "the binary", remedies.program);
        let (stack_option, stack, remedy) = match setup.settings.infra {
            Infra::Sam => ("--template", "infra/sam/template.yaml", remedies.file),
            Infra::Cdk => ("--cdk", "infra/cdk/build/bin/tidegate.js", remedies.cdk),
        };
        let files = Self {
            python: present(python, "the Python", remedies.python)?,
            script: file("infra/local/local_aws.py", remedies.file)?,
            stack: file(stack, remedy)?,
            stack_option,
            scheduler: binary("scheduler")?,
            poller: binary("poller")?,
            sandbox: binary("ses-sandbox")?,
        };
        modules(&files.python, remedies.python).await?;
        Ok(files)
    }

    /// The SQS sandbox's binary, which not every run needs.
    pub(super) fn sqs_sandbox(&self) -> Result<PathBuf, LocalError> {
        let remedy = Place::of_this_program().remedies().program;
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
pub(super) fn free_port(asked: Option<u16>, option: &'static str) -> Result<u16, LocalError> {
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

    pub(super) fn bin_dir(&self) -> PathBuf {
        match self {
            Self::Checkout => "target/local".into(),
            Self::Installed(prefix) => prefix.join(PROGRAMS),
        }
    }

    pub(super) fn root(&self) -> PathBuf {
        match self {
            Self::Checkout => ".".into(),
            Self::Installed(prefix) => prefix.join(FILES),
        }
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

    const fn remedies(&self) -> &'static Remedies {
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
struct Remedies {
    python: &'static str,
    program: &'static str,
    file: &'static str,
    cdk: &'static str,
}

/// The folder asked for, or a new one in `runs`, named for the time.
pub(super) fn create_folder(
    asked: Option<&Path>,
    runs: &Path,
    now_ns: u64,
) -> Result<PathBuf, LocalError> {
    let failed = |path: &Path, source| LocalError::Write { path: path.to_owned(), source };
    if let Some(asked) = asked {
        fs::create_dir_all(asked).map_err(|source| failed(asked, source))?;
        return Ok(asked.to_owned());
    }
    fs::create_dir_all(runs).map_err(|source| failed(runs, source))?;
    let name = format!("run-{}", stamp(now_ns));
    let others = (2..).map(|number| format!("{name}-{number}"));
    for name in std::iter::once(name.clone()).chain(others) {
        let path = runs.join(name);
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(failed(&path, source)),
        }
    }
    Ok(runs.to_owned())
}

/// Removes it where nothing was written into it.
pub(super) fn remove_empty(folder: &Path) {
    let _ = fs::remove_dir(folder);
}

pub(super) fn write(folder: &Path, name: &str, content: &str) -> Result<PathBuf, LocalError> {
    let path = folder.join(name);
    match fs::write(&path, content) {
        Ok(()) => Ok(path),
        Err(source) => Err(LocalError::Write { path, source }),
    }
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
    use crate::setup::tests::setup;

    #[test]
    fn a_taken_port_is_named_with_the_option_that_asked_for_it() {
        let holder = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let taken = holder.local_addr().unwrap().port();
        let error = free_port(Some(taken), "--port").unwrap_err();
        assert!(error.is_usage());
        let expected =
            format!("port {taken} is taken: end the program that holds it, or leave out --port");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }

    #[test]
    fn a_free_port_is_the_one_asked_for_or_any() {
        // Other programs hold ports, too: one of these thousand is free.
        let free =
            (20_000..21_000).find_map(|asked| Some((asked, free_port(Some(asked), "").ok()?)));
        let (asked, given) = free.unwrap();
        assert_eq!(given, asked);
        assert_ne!(free_port(None, "--port").unwrap(), 0);
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

#[cfg(test)]
mod place_tests {
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
