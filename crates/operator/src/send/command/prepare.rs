//! From the options to what is sent: files read, templates compiled, and what a resumed run must find
//! unchanged.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::send::{
    AddressList, CampaignDraft, DraftContent, InputFormat, InputSummary, JournalInput,
    RecipientFilter, TemplatePart, TemplateSource, Templates, fingerprint,
};
use clap::ValueEnum as _;
use tidegate_adapters::aws::SystemClock;
use tidegate_core::channel::{Channel, MessageRules};
use tidegate_core::config::Campaign;
use tidegate_core::runs::RunInput;
use tidegate_delivery::ports::Clock as _;

use super::args::{FormatOption, InputArgs, MailArgs, SendArgs};
use crate::shell::{CommandError, CommandResult, open_file, text_file};

/// Templates, each of a part of the message.
pub(crate) type Sources = Vec<(TemplatePart, TemplateSource)>;

/// The templates of the bodies, read, and the others as they are given.
pub(crate) fn read_sources<'a>(
    html: Option<&Path>,
    text: Option<&Path>,
    others: impl IntoIterator<Item = (TemplatePart, &'a Option<String>)>,
) -> CommandResult<Sources> {
    let mut sources = Sources::new();
    for (part, path) in [(TemplatePart::Html, html), (TemplatePart::Text, text)] {
        if let Some(path) = path {
            let text = text_file(path)?;
            sources.push((part, TemplateSource::new(path.display().to_string(), text)));
        }
    }
    for (part, text) in others {
        if let Some(text) = text {
            sources.push((part, TemplateSource::new(part.option(), text)));
        }
    }
    Ok(sources)
}

/// The templates that the options name, read.
pub(super) fn sources(args: &MailArgs, channel: Channel) -> CommandResult<Sources> {
    let others = [
        (TemplatePart::Subject, &args.subject),
        (TemplatePart::UnsubscribeUrl, &args.list_unsubscribe),
        (TemplatePart::UnsubscribeMailto, &args.unsubscribe_mailto),
    ];
    let mut sources = read_sources(args.template.as_deref(), args.text.as_deref(), others)?;
    if args.template_name.is_none() && (channel == Channel::Email || args.text.is_none()) {
        complete(&mut sources)?;
    }
    Ok(sources)
}

/// A body, and a subject: the HTML's title where none was given.
fn complete(sources: &mut Sources) -> CommandResult<()> {
    let has =
        |part| sources.iter().any(|(named, _): &(TemplatePart, TemplateSource)| *named == part);
    if !has(TemplatePart::Html) && !has(TemplatePart::Text) {
        let said = "the message says nothing: --text FILE is the text of a text message or mail, \
                    --template FILE a mail's HTML, or --template-name NAME a template in SES";
        return Err(CommandError::Input(said.to_owned()));
    }
    if !has(TemplatePart::Subject) {
        let html = sources.iter().find(|(part, _)| *part == TemplatePart::Html);
        let title = html.and_then(|(_, html)| html.title()).ok_or_else(|| {
            let said = "the mail has no subject: --subject TEXT, or a <title> in the HTML template";
            CommandError::Input(said.to_owned())
        })?;
        sources.push((TemplatePart::Subject, title));
    }
    Ok(())
}

/// Opens the input, which is read several times: so it must be a file.
pub(super) fn open(path: &Path) -> CommandResult<File> {
    if path.as_os_str() == "-" {
        let said = "-: the input is read twice, and again to go on after an interruption; allowed is \
                    a file: write it to one first";
        return Err(CommandError::Input(said.to_owned()));
    }
    let file = open_file(path)?;
    let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
    if !is_file {
        let said = format!("{}: allowed is a file, which can be read twice", path.display());
        return Err(CommandError::Input(said));
    }
    Ok(file)
}

/// The recipients that `--exclude` and `--only` leave; those of `--exclude-suppressed` are not read here.
pub(super) fn recipients(args: &InputArgs) -> CommandResult<RecipientFilter> {
    let only = args.only.as_ref().map(|path| addresses(std::slice::from_ref(path)));
    let (exclude, only) = (addresses(&args.exclude)?, only.transpose()?);
    if let Some(fault) = only.iter().chain([&exclude]).find_map(|list| list.faults().first()) {
        return Err(CommandError::Input(fault.to_string()));
    }
    Ok(RecipientFilter { exclude, only, ..RecipientFilter::default() })
}

pub(crate) fn addresses(files: &[PathBuf]) -> CommandResult<AddressList> {
    let mut list = AddressList::default();
    for path in files {
        let read = list.read(&path.display().to_string(), open(path)?);
        read.map_err(|fault| CommandError::Input(fault.to_string()))?;
    }
    Ok(list)
}

/// Writes the refused rows to the file of `--skip-invalid`.
pub(super) fn write_refused(args: &SendArgs, rows: &str) -> CommandResult<()> {
    let Some(path) = &args.input.skip_invalid else { return Ok(()) };
    if *path == args.file {
        let said = "--skip-invalid: allowed is another file than the list";
        return Err(CommandError::Input(said.to_owned()));
    }
    fs::write(path, rows).map_err(CommandError::of_file(path, "cannot be written"))
}

pub(super) fn format(SendArgs { file, input: args, .. }: &SendArgs) -> InputFormat {
    let unpacked = unpacked(file);
    let ending = unpacked.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let named = FormatOption::from_str(ending, true).unwrap_or(FormatOption::Csv);
    let usual = match args.format.unwrap_or(named) {
        FormatOption::Json => return InputFormat::Json,
        FormatOption::Tsv => b'\t',
        FormatOption::Csv => b',',
    };
    let delimiter = args.delimiter.unwrap_or(usual);
    InputFormat::Csv { delimiter, multiline: args.multiline }
}

/// The file's name without the ending of gzip.
fn unpacked(path: &Path) -> PathBuf {
    let is_packed = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"));
    if is_packed { path.with_extension("") } else { path.to_owned() }
}

fn stem(path: &Path) -> String {
    unpacked(path).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned()
}

/// The campaign of `--campaign`, else the one with the name of the file.
pub(super) fn campaign(args: &SendArgs, campaigns: &[Campaign]) -> CommandResult<Campaign> {
    let asked = args.campaign.clone().unwrap_or_else(|| stem(&args.file));
    if let Some(campaign) = campaigns.iter().find(|campaign| campaign.name == asked) {
        return Ok(campaign.clone());
    }
    let names: Vec<&str> = campaigns.iter().map(|campaign| campaign.name.as_str()).collect();
    let names = names.join(", ");
    Err(CommandError::Input(match args.campaign {
        Some(_) => {
            format!("--campaign {asked}: the stack has no such campaign; allowed is: {names}")
        }
        None => format!(
            "which campaign? --campaign NAME; the stack has: {names} (and none called {asked}, as \
             the file is)"
        ),
    }))
}

/// The default name of a run: the name of the input file without its ending.
fn usual_name(path: &Path) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = stem(path).chars().take(60).map(legal).collect();
    if name.is_empty() { "run".to_owned() } else { name }
}

/// The run's name: as it was given, that of the rest of a run, or the file's.
pub(super) fn run_name(args: &SendArgs, rest: Option<&str>) -> String {
    let named = args.run.again.as_deref().or(args.run.run.as_deref()).or(rest);
    named.map_or_else(|| usual_name(&args.file), str::to_owned)
}

/// The run's journal.
pub(super) fn journal(args: &SendArgs, campaign: &str, run: &str) -> PathBuf {
    args.run.journal.clone().unwrap_or_else(|| usual_journal(campaign, run))
}

pub(super) fn usual_journal(campaign: &str, run: &str) -> PathBuf {
    Path::new(".tidegate").join(format!("{campaign}-{run}.journal"))
}

pub(super) fn draft(
    args: &SendArgs,
    campaign: &str,
    run: &str,
    sources: Sources,
    rules: MessageRules,
) -> CommandResult<CampaignDraft> {
    let templates = Templates::compile(sources, &args.mail.allow).map_err(|faults| {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        CommandError::Input(faults.join("\n"))
    })?;
    let channel = rules.channel;
    let content = match &args.mail.template_name {
        _ if channel == Channel::Sms => DraftContent::Text(args.texts.draft(templates)),
        Some(name) => DraftContent::SesTemplate { name: name.clone(), headers: templates },
        None => DraftContent::Templates(templates),
    };
    Ok(CampaignDraft {
        campaign: campaign.to_owned(),
        run: run.to_owned(),
        from: args.mail.from.clone(),
        reply_to: args.mail.reply_to.clone(),
        priority: args.mail.priority.clone(),
        tags: args.mail.tags.iter().cloned().collect(),
        configuration_set: args.mail.configuration_set.clone(),
        content,
        to_column: to_column(args, channel),
        id_column: args.input.id_column.clone(),
        not_before: args.mail.not_before.clone(),
        began: SystemClock::new().wall().into(),
        uploaded: args.run.upload,
        rules,
    })
}

/// The column of the recipient; `None` for a mail's default.
pub(super) fn to_column(args: &SendArgs, channel: Channel) -> Option<String> {
    let default = (channel == Channel::Sms).then(|| "to_phone".to_owned());
    args.input.to_column.clone().or(default)
}

/// Everything that must be unchanged when a run is resumed: file contents as hashes, options as
/// they were given.
pub(super) fn settings(
    args: &SendArgs,
    sources: &[(TemplatePart, TemplateSource)],
    checked: &InputSummary,
    recipients: &RecipientFilter,
) -> BTreeMap<String, String> {
    let written = match format(args) {
        InputFormat::Csv { delimiter, .. } => format!("Csv {{ delimiter: {delimiter} }}"),
        InputFormat::Json => "Json".to_owned(),
    };
    let mut settings = BTreeMap::from([
        ("input".to_owned(), checked.sha256.clone()),
        ("--format".to_owned(), written),
    ]);
    for (part, source) in sources {
        settings.insert(part.option().to_owned(), fingerprint(source.text.as_bytes()));
    }
    let tags: BTreeMap<_, _> = args.mail.tags.iter().cloned().collect();
    let tags: Vec<String> = tags.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let listed = |list: &[String]| (!list.is_empty()).then(|| list.join(", "));
    for (name, value) in [
        ("--from", args.mail.from.clone()),
        ("--type", args.texts.message_type.clone()),
        ("--template-name", args.mail.template_name.clone()),
        ("--reply-to", listed(&args.mail.reply_to)),
        ("--tag", listed(&tags)),
        ("--priority", args.mail.priority.clone()),
        ("--not-before", args.mail.not_before.clone()),
        ("--configuration-set", args.mail.configuration_set.clone()),
        ("--to-column", args.input.to_column.clone()),
        ("--id-column", args.input.id_column.clone()),
        ("--exclude", recipients.exclude.sha256()),
        ("--only", recipients.only.as_ref().and_then(AddressList::sha256)),
        ("--exclude-suppressed", args.input.exclude_suppressed.then(|| "given".to_owned())),
        ("--rest-of", args.run.rest_of.clone()),
        ("--multiline", args.input.multiline.then(|| "given".to_owned())),
        ("--first-of-duplicates", args.input.first_of_duplicates.then(|| "given".to_owned())),
        ("--skip-invalid", args.input.skip_invalid.as_ref().map(|_| "given".to_owned())),
    ] {
        settings.extend(value.map(|value| (name.to_owned(), value)));
    }
    settings
}

/// The list and the message, by which another sending of the same is recognised.
pub(super) fn run_input(settings: &BTreeMap<String, String>, rows: u64) -> RunInput {
    let parts = [TemplatePart::Subject, TemplatePart::Html, TemplatePart::Text];
    let options = parts.map(TemplatePart::option).into_iter().chain(["--template-name"]);
    let message: Vec<&str> =
        options.filter_map(|option| settings.get(option).map(String::as_str)).collect();
    let list = settings.get("input").cloned().unwrap_or_default();
    RunInput { list, message: fingerprint(message.join(" ").as_bytes()), rows }
}

/// The input as the first record of a new journal names it.
pub(super) fn journal_input(args: &SendArgs, channel: Channel) -> JournalInput {
    let path = std::path::absolute(&args.file).unwrap_or_else(|_| args.file.clone());
    JournalInput { path, format: format(args), to_column: to_column(args, channel) }
}

#[cfg(test)]
mod tests {
    use crate::send::KnownList;
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        send: SendArgs,
    }

    fn args(line: &str) -> SendArgs {
        let words = ["tidegate", "--from", "news@example.org"].into_iter().chain(line.split(' '));
        Program::try_parse_from(words).unwrap().send
    }

    fn said<T: std::fmt::Debug>(result: CommandResult<T>) -> (u8, String) {
        let error = result.unwrap_err();
        (error.exit_code(), error.to_string())
    }

    #[test]
    fn the_input_is_a_file_since_it_is_read_twice() {
        let (code, said) = said(open(Path::new("-")));
        assert_eq!(code, 2);
        assert!(said.contains("allowed is a file: write it to one first"), "{said}");
        let folder = open(&std::env::temp_dir()).unwrap_err();
        assert!(folder.to_string().ends_with("allowed is a file, which can be read twice"));
    }

    #[test]
    fn json_lines_are_known_by_their_ending_or_the_option() {
        let csv = InputFormat::Csv { delimiter: b';', multiline: false };
        for (line, expected) in [
            ("a.jsonl", InputFormat::Json),
            ("a.NDJSON", InputFormat::Json),
            ("a.txt --format jsonl", InputFormat::Json),
            ("a.json", InputFormat::Json),
            ("a.jsonl.gz", InputFormat::Json),
            ("a.TSV", InputFormat::Csv { delimiter: b'\t', multiline: false }),
            ("a.csv --format tsv", InputFormat::Csv { delimiter: b'\t', multiline: false }),
            ("a.tsv.gz --delimiter ;", csv),
            ("a.jsonl --format csv --delimiter ;", csv),
            ("a.csv --delimiter ;", csv),
        ] {
            let args = args(line);
            assert_eq!(format(&args), expected, "{line}");
        }
    }

    #[test]
    fn a_mail_needs_a_body_and_a_subject() {
        let (code, nothing) = said(sources(&args("a.csv --subject Hello").mail, Channel::Email));
        assert_eq!(code, 2);
        assert!(nothing.starts_with("the message says nothing: --text FILE"), "{nothing}");
        let path = std::env::temp_dir().join(format!("tidegate-mail-{}.html", std::process::id()));
        fs::write(&path, "<p>Hello</p>").unwrap();
        let line = format!("a.csv --template {}", path.display());
        let (_, untitled) = said(sources(&args(&line).mail, Channel::Email));
        assert!(untitled.contains("--subject TEXT, or a <title>"), "{untitled}");
        fs::write(&path, "<title>News for {{ name }}</title>").unwrap();
        let titled = sources(&args(&line).mail, Channel::Email).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(titled[1].1.text, "News for {{ name }}");
    }

    #[test]
    fn the_campaign_is_named_or_called_as_the_file() {
        let known = Campaign {
            name: "big".into(),
            queue_url: "https://q/big".into(),
            weight: 1,
            ..Campaign::default()
        };
        let campaigns = [known];
        assert_eq!(campaign(&args("x/big.csv"), &campaigns).unwrap().name, "big");
        assert_eq!(campaign(&args("a.csv --campaign big"), &campaigns).unwrap().name, "big");
        let (code, unknown) = said(campaign(&args("a.csv --campaign bug"), &campaigns));
        assert_eq!((code, unknown.ends_with("allowed is: big")), (2, true), "{unknown}");
        let (_, unnamed) = said(campaign(&args("november.csv"), &campaigns));
        assert!(unnamed.contains("the stack has: big (and none called november"), "{unnamed}");
    }

    #[test]
    fn a_run_is_called_as_its_file_unless_it_has_a_name() {
        let named = |line: &str| run_name(&args(line), None);
        assert_eq!(named("in/Nov_2026.csv"), "Nov_2026");
        assert_eq!(named("a.csv --again december"), "december");
        let usual = journal(&args("a.csv"), "big", "a");
        assert_eq!(usual, Path::new(".tidegate/big-a.journal"));
        let own = journal(&args("a.csv --journal in/x.journal"), "big", "a");
        assert_eq!(own, Path::new("in/x.journal"));
        for (line, wish) in [
            ("a.csv --run december", KnownList::Refuse),
            ("a.csv --continue", KnownList::Continue),
            ("a.csv --again december", KnownList::SendAgain),
            ("a.csv --rest-of a", KnownList::SendAgain),
        ] {
            assert_eq!(args(line).run.wish(), wish, "{line}");
        }
    }

    #[test]
    fn whatever_changes_a_mail_is_among_what_must_stay_as_it_was() {
        let checked = InputSummary { sha256: "5f".into(), ..InputSummary::default() };
        let of = |line: &str| {
            let sources = vec![(TemplatePart::Text, TemplateSource::new("mail.txt", "Hello"))];
            let line = args(line);
            let recipients = recipients(&line.input).unwrap();
            settings(&line, &sources, &checked, &recipients)
        };
        let plain = of("a.csv");
        for option in [
            "--reply-to a@example.org",
            "--tag a=b",
            "--type promotional",
            "--priority high",
            "--configuration-set c",
            "--to-column t",
            "--id-column i",
            "--multiline",
            "--first-of-duplicates",
            "--skip-invalid refused.csv",
            "--exclude-suppressed",
            "--template-name t",
            "--rest-of r",
        ] {
            assert_eq!(of(&format!("a.csv {option}")).len(), plain.len() + 1, "{option}");
        }
        for option in ["--max-backlog none", "--parallel 2", "--max-errors 3", "--allow-duplicates"]
        {
            assert_eq!(of(&format!("a.csv {option}")), plain, "{option}");
        }
    }
}
