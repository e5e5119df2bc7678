use std::io::{self, IsTerminal as _, Write as _};

use clap::{Args, ValueEnum};
use serde::Serialize;
use tidegate_operate::page::{Page, View};
use tidegate_operate::redact::AddressVisibility;

/// How a command speaks.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Print the report as JSON, and nothing else, to standard output
    #[arg(long)]
    pub json: bool,
    /// Colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: Colour,
    /// Show addresses of recipients instead of masking them
    #[arg(long)]
    pub show_addresses: bool,
}

/// When there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal, unless `NO_COLOR` is set
    Auto,
    /// Also into a file
    Always,
    /// Never
    Never,
}

/// Where a report goes.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
    addresses: AddressVisibility,
}

impl Output {
    /// As the options say; colours are the whole program's.
    pub fn new(args: OutputArgs) -> Self {
        let choice = match args.color {
            Colour::Auto => anstream::ColorChoice::Auto,
            Colour::Always => anstream::ColorChoice::Always,
            Colour::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
        let addresses =
            if args.show_addresses { AddressVisibility::Shown } else { AddressVisibility::Masked };
        Self { json: args.json, addresses }
    }

    /// Text, addresses masked: of commands that have no report.
    pub const fn plain() -> Self {
        Self { json: false, addresses: AddressVisibility::Masked }
    }

    /// Whether the report is JSON.
    pub const fn is_json(&self) -> bool {
        self.json
    }

    /// Whether addresses are shown.
    pub const fn addresses(&self) -> AddressVisibility {
        self.addresses
    }

    /// Whether progress can be shown: standard error is a terminal.
    pub fn shows_progress(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// Writes a report to standard output: JSON, or text.
    ///
    /// # Errors
    /// Standard output's; whoever closed it wants no more of it, and that is none.
    pub fn show(&self, report: &(impl Serialize + View)) -> io::Result<()> {
        self.write(report, serde_json::to_string_pretty(report))
    }

    /// As [`Output::show`], of a program that goes on: its JSON is one line, which a reader can wait for.
    ///
    /// # Errors
    /// As [`Output::show`]'s.
    pub fn begin(&self, report: &(impl Serialize + View)) -> io::Result<()> {
        self.write(report, serde_json::to_string(report))
    }

    fn write(self, report: &impl View, json: serde_json::Result<String>) -> io::Result<()> {
        let text = if self.json {
            format!("{}\n", json.map_err(io::Error::other)?)
        } else {
            Page::of(report).to_string()
        };
        let mut out = anstream::stdout();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        written.or_else(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Ok(()),
            _ => Err(error),
        })
    }

    /// Says something beside the report, on standard error; nothing where the report is JSON.
    pub fn say(&self, page: &Page) {
        if !self.json {
            // Whoever closed it wants no more of it.
            let _ = write!(anstream::stderr(), "{page}");
        }
    }

    /// [`Output::say`], of a report.
    pub fn say_view(&self, view: &impl View) {
        self.say(&Page::of(view));
    }
}
