//! `tidegate mcp`: the commands as tools for an assistant, by the Model Context Protocol.
//!
//! A tool is a command, its input the command's own options, described as `--help` does. A call runs this program with the command, `--json`
//! and without `--show-addresses`, and answers with the report. So an assistant sees what the operator would, and no addresses.

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgAction, Args};
use rmcp::ServiceExt as _;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::io::stdio;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, RestrictFormats};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};
use tidegate_core::control::ChangeRecord;
use tidegate_simulator::plan::PlanReport;
use tokio::process::Command;

use crate::dead::{LetterDetails, LetterGroups, LetterList, LetterReport, Review};
use crate::results::ResultsReport;
use crate::shell::{CommandEnd, CommandError, CommandResult};
use crate::stack::StackArgs;
use crate::status::{CampaignStatus, LimitStatus, QuotaStatus, RunStatus, Status};
use crate::steer::SteerReport;
use crate::why::{AddressReport, Explanation};

/// A command by its words, and the schema of its answer.
type Offer = (&'static [&'static str], fn() -> JsonObject);

/// The commands that only read.
const READING: [Offer; 9] = [
    (&["status"], answer_of::<Status>),
    (&["why"], answer_of::<Either<Explanation, AddressReport>>),
    (&["plan"], answer_of::<PlanReport>),
    (&["results"], answer_of::<Either<ResultsReport, ReportInObject<Vec<RunStatus>>>>),
    (&["dead"], answer_of::<LetterGroups>),
    (&["dead", "list"], answer_of::<LetterList>),
    (&["dead", "show"], answer_of::<ReportInObject<Vec<LetterDetails>>>),
    (&["history"], answer_of::<ReportInObject<Vec<ChangeRecord>>>),
    (&["limit", "list"], answer_of::<ReportInObject<Vec<LimitStatus>>>),
];
/// The commands that change something, and want a reason for the history.
const ACTING: [Offer; 8] = [
    (&["pause"], answer_of::<SteerReport>),
    (&["resume"], answer_of::<SteerReport>),
    (&["lift"], answer_of::<SteerReport>),
    (&["weights"], answer_of::<Either<SteerReport, ReportInObject<Vec<CampaignStatus>>>>),
    (&["rate"], answer_of::<Either<SteerReport, QuotaStatus>>),
    (&["limit", "set"], answer_of::<SteerReport>),
    (&["limit", "remove"], answer_of::<SteerReport>),
    (&["dead", "replay"], answer_of::<Either<LetterReport, Review>>),
];
/// Options that no tool has: those that write files or show a mail's text, and those that are for a person.
const LEFT_OUT: [&str; 6] = ["csv", "chart", "body", "yes", "help", "version"];
/// A forecast of many campaigns, or of every window, takes a minute.
const LONGEST: Duration = Duration::from_mins(5);

const INSTRUCTIONS: &str = "Tidegate sends e-mail campaigns through Amazon SES at the account's quota. `status` shows what stands, `why` what a \
    mail waits for, `plan` forecasts, `results` accounts for a run, `dead` counts what failed for good. Addresses are masked.";

/// Serve an assistant: the reading commands as tools of the Model Context Protocol, over standard input and output
///
/// The tools are status, why, plan, results, dead, history and limits, with the commands' own options; their answers are the reports as JSON, with masked addresses.
/// With --act there are also pause, resume, lift, weights, rate, limits that are set or removed, and the replay of dead letters. Each of these wants a reason, which stands in the history with who
/// the caller is to AWS, and is marked as one that changes something, so that an assistant can ask you first.
///
/// Exit code: 0 once the assistant has closed its end; 2 where it never spoke the protocol.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  claude mcp add tidegate -- tidegate mcp --stack mail --profile ops
  tidegate mcp --local                the stack that `make run` runs on this machine
  tidegate mcp --stack mail --act     also what changes something")]
pub struct McpArgs {
    /// Also offer the commands that change something
    #[arg(long)]
    act: bool,
    #[command(flatten)]
    stack: StackArgs,
}

pub(crate) async fn run(args: &McpArgs, program: clap::Command) -> CommandResult {
    let this = std::env::current_exe().map_err(CommandError::Terminal)?;
    let server = ToolServer::new(args, &program, this);
    let fault =
        |error: &dyn std::fmt::Display| CommandError::Input(format!("the assistant: {error}"));
    let running = server.serve(stdio()).await.map_err(|error| fault(&error))?;
    running.waiting().await.map_err(|error| fault(&error))?;
    Ok(CommandEnd::Done)
}

/// The schema of a report as it is written. The types' comments describe it, without their examples.
fn answer_of<T: JsonSchema>() -> JsonObject {
    let without_example = |schema: &mut Schema| {
        if let Some(Value::String(said)) = schema.get_mut("description") {
            said.truncate(said.find("\n\n```").unwrap_or(said.len()));
        }
    };
    let settings = SchemaSettings::draft2020_12().for_serialize();
    // Clients complain of formats such as `uint64`, which are Rust's own.
    let settings = settings.with_transform(RestrictFormats::default());
    let settings = settings.with_transform(RecursiveTransform(without_example));
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    schema.as_object().cloned().unwrap_or_default()
}

/// A report that is no object, in one, since the protocol wants one.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it is only described")]
struct ReportInObject<T> {
    report: T,
}

/// One of two reports, by what is asked for.
#[derive(JsonSchema)]
#[schemars(untagged, extend("type" = "object"))]
#[expect(dead_code, reason = "it is only described")]
enum Either<A, B> {
    First(A),
    Second(B),
}

/// A command that is offered.
struct CommandTool {
    words: &'static [&'static str],
    answer: fn() -> JsonObject,
    command: clap::Command,
    acts: bool,
}

struct ToolServer {
    tools: Vec<CommandTool>,
    program: PathBuf,
    /// The options that select the stack, for each call.
    stack: Vec<String>,
}

impl ToolServer {
    fn new(args: &McpArgs, program: &clap::Command, this: PathBuf) -> Self {
        let offered = READING.map(|offer| (offer, false)).into_iter();
        let acting = ACTING.map(|offer| (offer, true)).into_iter().filter(|_| args.act);
        let tool = |((words, answer), acts): (Offer, bool)| {
            let found = words.iter().try_fold(program, |of, word| of.find_subcommand(word));
            found.map(|command| CommandTool { words, answer, command: command.clone(), acts })
        };
        Self {
            tools: offered.chain(acting).filter_map(tool).collect(),
            program: this,
            stack: of_stack(&args.stack),
        }
    }

    async fn call(
        &self,
        tool: &CommandTool,
        given: &JsonObject,
    ) -> Result<CallToolResult, ErrorData> {
        let words = tool.words(given).map_err(|fault| ErrorData::invalid_params(fault, None))?;
        let mut command = Command::new(&self.program);
        command.args(tool.words).args(&self.stack).arg("--json").args(words);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let internal =
            |error: &dyn std::fmt::Display| ErrorData::internal_error(error.to_string(), None);
        let ended = tokio::time::timeout(LONGEST, command.output()).await;
        let ended =
            ended.map_err(|_| internal(&format!("it took longer than {} s", LONGEST.as_secs())))?;
        Ok(answer(&ended.map_err(|error| internal(&error))?))
    }
}

/// The report, or what was said in place of one. A report that tells of problems is no error of the tool.
fn answer(ended: &Output) -> CallToolResult {
    match serde_json::from_slice::<Value>(&ended.stdout) {
        Ok(Value::Object(report)) => CallToolResult::structured(Value::Object(report)),
        Ok(other) => CallToolResult::structured(json!({ "report": other })),
        Err(_) => {
            let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
            CallToolResult::error(vec![ContentBlock::text(said)])
        }
    }
}

/// The options as they were given, so that each call is about the same stack.
fn of_stack(args: &StackArgs) -> Vec<String> {
    let StackArgs { stack, local, region, profile, endpoint_url, local_runs } = args;
    let runs = local_runs.as_ref().map(|folder| folder.display().to_string());
    let options = [
        ("stack", Some(stack)),
        ("local", local.as_ref()),
        ("region", region.as_ref()),
        ("profile", profile.as_ref()),
        ("endpoint-url", endpoint_url.as_ref()),
        ("local-runs", runs.as_ref()),
    ];
    let word = |name: &str, value: &String| {
        // The newest local run has no name.
        if value.is_empty() { format!("--{name}") } else { format!("--{name}={value}") }
    };
    options.into_iter().filter_map(|(name, value)| value.map(|value| word(name, value))).collect()
}

impl CommandTool {
    fn name(&self) -> String {
        self.words.join("_")
    }

    /// The options that this command has and others have not.
    fn options(&self) -> impl Iterator<Item = &clap::Arg> {
        let options = self.command.get_arguments();
        options.filter(|option| {
            !option.is_hide_set()
                && !option.is_global_set()
                && !LEFT_OUT.contains(&option.get_id().as_str())
        })
    }

    fn tool(&self) -> Tool {
        let about = self.command.get_long_about().or_else(|| self.command.get_about());
        let annotations = ToolAnnotations::new().read_only(!self.acts).destructive(self.acts);
        let about = about.map(ToString::to_string).unwrap_or_default();
        let tool = Tool::new(self.name(), about, self.schema()).with_annotations(annotations);
        tool.with_raw_output_schema(Arc::new((self.answer)()))
    }

    fn schema(&self) -> JsonObject {
        let property = |option: &clap::Arg| {
            let one = match option.get_action() {
                ArgAction::SetTrue => json!({ "type": "boolean" }),
                _ => json!({ "type": ["string", "number"] }),
            };
            let mut schema = match option.get_action() {
                ArgAction::Append => json!({ "type": "array", "items": one }),
                _ => one,
            };
            schema["description"] =
                option.get_help().map(ToString::to_string).unwrap_or_default().into();
            let allowed: Vec<String> = option
                .get_possible_values()
                .iter()
                .map(|value| value.get_name().to_owned())
                .collect();
            if !allowed.is_empty()
                && !matches!(option.get_action(), ArgAction::SetTrue | ArgAction::Append)
            {
                schema["enum"] = json!(allowed);
            }
            (name_of(option), schema)
        };
        let schema = json!({
            "type": "object",
            "properties": self.options().map(property).collect::<serde_json::Map<_, _>>(),
            "required": self.required(),
            "additionalProperties": false,
        });
        schema.as_object().cloned().unwrap_or_default()
    }

    /// The options that must be given. A change wants its reason, also where the command shows something without one.
    fn required(&self) -> Vec<String> {
        let is_required = |option: &&clap::Arg| {
            option.is_required_set() || self.acts && option.get_id() == "reason"
        };
        self.options().filter(is_required).map(name_of).collect()
    }

    /// The words of a command line for what is given. Each value is a part of its option's word, or stands behind `--`: none can be taken for an option.
    fn words(&self, given: &JsonObject) -> Result<Vec<String>, String> {
        if let Some(missing) = self.required().iter().find(|name| !given.contains_key(*name)) {
            return Err(format!("{} wants {missing}", self.name()));
        }
        let (mut options, mut places) = (Vec::new(), Vec::new());
        for (name, value) in given {
            let option = self.options().find(|option| name_of(option) == *name);
            let option = option.ok_or_else(|| {
                let known: Vec<String> = self.options().map(name_of).collect();
                format!("{} has no {name}; it has {}", self.name(), known.join(", "))
            })?;
            if matches!(option.get_action(), ArgAction::SetTrue) {
                match value {
                    Value::Bool(true) => options.push(word(option, None)),
                    Value::Bool(false) => {}
                    _ => return Err(format!("{name} is true or false")),
                }
                continue;
            }
            let values = match value {
                Value::Array(values) => values.as_slice(),
                value => std::slice::from_ref(value),
            };
            for value in values {
                let text = match value {
                    Value::String(text) => text.clone(),
                    Value::Number(number) => number.to_string(),
                    _ => return Err(format!("{name} is a text or a number")),
                };
                if option.is_positional() {
                    places.push((option.get_index(), text));
                } else {
                    options.push(word(option, Some(&text)));
                }
            }
        }
        if self.command.get_arguments().any(|option| option.get_id() == "yes") {
            options.push("--yes".to_owned());
        }
        places.sort();
        options.push("--".to_owned());
        options.extend(places.into_iter().map(|(_, text)| text));
        Ok(options)
    }
}

/// The option's name as `--help` has it, with `_` in place of `-`.
fn name_of(option: &clap::Arg) -> String {
    option.get_long().map_or_else(|| option.get_id().to_string(), |name| name.replace('-', "_"))
}

fn word(option: &clap::Arg, value: Option<&str>) -> String {
    let name = option.get_long().unwrap_or_default();
    value.map_or_else(|| format!("--{name}"), |value| format!("--{name}={value}"))
}

impl ServerHandler for ToolServer {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("tidegate", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(INSTRUCTIONS.to_owned());
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.iter().map(CommandTool::tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = self.tools.iter().find(|tool| tool.name() == request.name);
        let tool = tool.ok_or_else(|| {
            let hint = if ACTING.iter().any(|(words, _)| words.join("_") == request.name) {
                "; it is offered with --act"
            } else {
                ""
            };
            ErrorData::invalid_params(format!("there is no tool {}{hint}", request.name), None)
        })?;
        Ok(self.call(tool, &request.arguments.unwrap_or_default()).await?.into())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::process::ExitStatus;

    use boon::{Compiler, Schemas};
    use serde::Serialize;

    use super::*;

    /// The schema, with nothing beside what it names.
    fn closed(mut schema: Value) -> Value {
        let of = schema.as_object_mut().map(serde_json::Map::values_mut);
        of.into_iter().flatten().for_each(|of| *of = closed(of.take()));
        let of = schema.as_array_mut();
        of.into_iter().flatten().for_each(|of| *of = closed(of.take()));
        if schema.get("properties").is_some_and(Value::is_object) && schema["type"] == "object" {
            schema["additionalProperties"] = false.into();
        }
        schema
    }

    fn judge(answer_of: fn() -> JsonObject, answer: &Value) -> Result<(), String> {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.add_resource("schema.json", closed(Value::Object(answer_of()))).unwrap();
        let schema = compiler.compile("schema.json", &mut schemas).unwrap();
        schemas.validate(answer, schema).map_err(|error| format!("{error:#}"))
    }

    /// Asserts that the tool's schema allows the report as its answer, and names all that is in it.
    pub(crate) fn assert_answer(tool: &str, report: &impl Serialize) {
        let stdout = serde_json::to_vec(report).unwrap();
        let ended = Output { status: ExitStatus::default(), stdout, stderr: Vec::new() };
        let answer = answer(&ended).structured_content.unwrap();
        let mut offers = READING.iter().chain(&ACTING);
        let (_, answer_of) = offers.find(|(words, _)| words.join("_") == tool).unwrap();
        assert_eq!(judge(*answer_of, &answer), Ok(()), "{tool}: {answer:#}");
    }

    #[test]
    fn every_tool_has_the_schema_of_an_object_in_which_something_must_be() {
        for (words, answer_of) in READING.into_iter().chain(ACTING) {
            assert_eq!(answer_of()["type"], "object", "{words:?}");
            assert!(judge(answer_of, &json!({})).is_err(), "{words:?}");
            let text = Value::Object(answer_of()).to_string();
            for noise in ["```", "\"format\"", "assert_eq"] {
                assert!(!text.contains(noise), "{words:?}: {noise}");
            }
        }
    }
}
