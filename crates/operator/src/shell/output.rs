use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};

use crate::page::{Page, Tone, View};
use crate::redact::AddressVisibility;
use clap::{Args, ColorChoice};
use serde::Serialize;

/// Options for the output of a command
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Print the report as JSON, and nothing else, to standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// Colour the output: only on a terminal and unless `NO_COLOR` is set (auto), also in files and pipes (always), or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
    /// Show addresses of recipients instead of masking them
    #[arg(long, global = true)]
    pub show_addresses: bool,
}

/// Prints reports, as text or as JSON.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
    addresses: AddressVisibility,
}

impl Output {
    /// Applies the options; the choice of colours is global to the program.
    pub fn new(args: OutputArgs) -> Self {
        let choice = match args.color {
            ColorChoice::Auto => anstream::ColorChoice::Auto,
            ColorChoice::Always => anstream::ColorChoice::Always,
            ColorChoice::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
        let addresses =
            if args.show_addresses { AddressVisibility::Shown } else { AddressVisibility::Masked };
        Self { json: args.json, addresses }
    }

    /// Text with masked addresses, for commands without a report.
    pub const fn plain() -> Self {
        Self { json: false, addresses: AddressVisibility::Masked }
    }

    pub const fn is_json(&self) -> bool {
        self.json
    }

    pub const fn addresses(&self) -> AddressVisibility {
        self.addresses
    }

    /// Whether progress can be shown, which needs a terminal on standard error.
    pub fn shows_progress(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// Writes a report to standard output: JSON, or text.
    ///
    /// # Errors
    /// Those of standard output, except a closed pipe: its reader wants no more.
    pub fn show(&self, report: &(impl Serialize + View)) -> io::Result<()> {
        self.write(report, serde_json::to_string_pretty(report))
    }

    /// Like [`Output::show`], for a program that keeps running: its JSON is on one line, for which
    /// a reader can wait.
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

    /// Prints a remark of one line to standard error, as [`Output::say`].
    pub fn remark(&self, tone: Tone, text: impl Display) {
        let mut page = Page::default();
        page.line(tone, text);
        self.say(&page);
    }

    /// Prints a remark to standard error; nothing if the report is JSON.
    pub fn say(&self, page: &Page) {
        if !self.json {
            // A closed pipe means that the reader wants no more.
            let _ = write!(anstream::stderr(), "{page}");
        }
    }

    /// Prints a report to standard error, as [`Output::say`] prints a page.
    pub fn say_view(&self, view: &impl View) {
        self.say(&Page::of(view));
    }
}
