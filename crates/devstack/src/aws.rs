//! The local AWS: ministack with the real template deployed into it, and the SES sandbox; and the files and programs
//! that must be there before anything is started.

use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use http::Method;
use tidegate_adapters::aws::stack::{LocalEndpoint, LocalRuns, Stack};
use tidegate_adapters::aws::{Clients, DynamoLedger, SqsQueues};
use tidegate_fakes::unused_port;
use tidegate_operator::audit::{AuditReport, judge_stack};
use tokio::process::Command;
use tokio::time::Instant;

use crate::error::LocalError;
use crate::place::Place;
use crate::programs::{
    DeployedStack, Http, MINISTACK, ProcessGroup, ProgramOutput, REGION, Scratch, SesSandboxClient,
    isolated, ministack, wait_until_ready,
};
use crate::setup::{Infra, Setup, Sqs};

/// Credentials that are worth nothing anywhere else.
pub(super) const KEY: &str = "test";

/// ministack looks at its rules this often; and the scheduler's rule has this period.
const RULES_TICK: Duration = Duration::from_secs(10);
const RULE_PERIOD: Duration = Duration::from_mins(1);
/// Longer than any run.
const WHOLE_RUN: Duration = Duration::from_hours(24);

/// A local AWS that runs Tidegate. Dropping it kills all its programs and removes its temporary
/// files.
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
        let asked = setup.sandbox_port.map(|port| free_port(Some(port), "--sandbox-port"));
        let sandbox_port = asked.transpose()?.unwrap_or(0);
        let scratch = Scratch::create(folder)?;
        let mut process_group = ProcessGroup::default();
        let started = Instant::now();
        let log = folder.join("ministack.log");
        let command = ministack(&files.python, port, scratch.path());
        process_group.start(MINISTACK, command, ProgramOutput::Log(&log))?;
        let (ses, options) = (&files.sandbox, setup.sandbox_options());
        let url = process_group.serve(ses, sandbox_port, options, "ses-sandbox", folder).await?;
        let mut parameters = setup.parameters(&url);
        let ministack = Http::new(format!("http://127.0.0.1:{port}"));
        let mut sqs_url = ministack.base().to_owned();
        if let Some(binary) = &files.sqs_sandbox {
            // Its queues are created at their first use, under the names that the stack gives them.
            sqs_url = process_group.serve(binary, 0, ["--create"], "sqs-sandbox", folder).await?;
            parameters.push(("SqsEndpointUrl".to_owned(), sqs_url.clone()));
        }
        wait_until_ready(&mut process_group, &ministack, &log).await?;
        let stack = deploy(&process_group, &files, ministack.base(), &parameters).await?;
        let (region, key) = (REGION.to_owned(), KEY.to_owned());
        let (name, endpoint) = (stack.name.clone(), ministack.base().to_owned());
        let endpoint = LocalEndpoint { stack: name, endpoint, region, key };
        endpoint.write(folder).map_err(LocalError::write(folder))?;
        // ministack looks at its rules every 10 s, and a rule of one minute is due one minute after it was made.
        let due = (Instant::now() + RULE_PERIOD).duration_since(started).as_secs();
        let tick = RULES_TICK.as_secs();
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
            first_trigger: started + Duration::from_secs(due.div_ceil(tick) * tick),
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

    /// Judges the run by what its pollers have logged.
    ///
    /// # Errors
    /// [`LocalError`], if the local AWS does not answer.
    pub async fn audit(&self) -> Result<AuditReport, LocalError> {
        Ok(judge_stack(&self.operated().await?, WHOLE_RUN).await?)
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

async fn deploy(
    process_group: &ProcessGroup,
    files: &Files,
    endpoint: &str,
    parameters: &[(String, String)],
) -> Result<DeployedStack, LocalError> {
    let mut command = isolated(&files.python, &std::env::temp_dir());
    command.arg("-B").arg(&files.script).args(["deploy", "--region", REGION]);
    command.args(["--endpoint", endpoint]);
    command.arg(files.stack_option).arg(&files.stack);
    command.arg("--scheduler").arg(&files.scheduler).arg("--poller").arg(&files.poller);
    for (name, value) in parameters {
        command.arg("--parameter").arg(format!("{name}={value}"));
    }
    let output = process_group.run("the deployment", command).await?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(LocalError::Deploy(said.trim().to_owned()));
    }
    let stack = serde_json::from_slice(&output.stdout);
    stack.map_err(|error| LocalError::Deploy(format!("its answer cannot be read: {error}")))
}

/// The Python packages that ministack and the deployment script import.
const MODULES: &str = "ministack boto3 yaml";
const FIND_MODULES: &str = "import importlib.util as u, sys; \
     print(' '.join(m for m in sys.argv[1:] if u.find_spec(m) is None))";

/// Files that a run uses, all of them there.
#[derive(Clone, Debug)]
struct Files {
    python: PathBuf,
    script: PathBuf,
    /// The stack's description: the SAM template, or the CDK app, compiled to JavaScript.
    stack: PathBuf,
    /// The script's option for it.
    stack_option: &'static str,
    scheduler: PathBuf,
    poller: PathBuf,
    sandbox: PathBuf,
    /// The SQS sandbox's binary; none where the queues are ministack's.
    sqs_sandbox: Option<PathBuf>,
}

impl Files {
    /// Looks for all of them, and for the Python packages.
    async fn find(setup: &Setup) -> Result<Self, LocalError> {
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
            sqs_sandbox: (setup.settings.sqs == Sqs::Sandbox)
                .then(|| binary("sqs-sandbox"))
                .transpose()?,
        };
        modules(&files.python, remedies.python).await?;
        Ok(files)
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
    let output = command.output().await;
    let output = output.map_err(LocalError::start(python.display().to_string()))?;
    let missing = String::from_utf8_lossy(&output.stdout).trim().replace(' ', ", ");
    let what = match output.status.success() {
        true if missing.is_empty() => return Ok(()),
        true => missing.as_str(),
        false => "a Python that works",
    };
    let what = format!("{what} (in {})", python.display());
    Err(LocalError::Missing { what, remedy: remedy.to_owned() })
}

/// A port on loopback that is free now: the requested one, or any.
pub(super) fn free_port(asked: Option<u16>, option: &'static str) -> Result<u16, LocalError> {
    let Some(port) = asked else {
        return unused_port().map_err(LocalError::start("a server on a free port"));
    };
    let instead = || format!("leave out {option} (then a free one is used)");
    check_port(Ipv4Addr::LOCALHOST, port, instead).map(|()| port)
}

/// An error where a port on loopback is taken, with what else can be done `instead`.
pub(super) fn check_port(
    host: impl Into<IpAddr>,
    port: u16,
    instead: impl FnOnce() -> String,
) -> Result<(), LocalError> {
    match TcpListener::bind((host.into(), port)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            Err(LocalError::PortTaken { port, instead: instead() })
        }
        Err(error) => Err(LocalError::start(format!("a server on port {port}"))(error)),
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
