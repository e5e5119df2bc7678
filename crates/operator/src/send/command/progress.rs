//! A bar on the terminal, while mails are enqueued or dead letters are read and replayed.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::time::Duration;

use crate::page::Tone;
use crate::send::SendProgress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_core::format::count;

use crate::shell::Output;
use tidegate_core::in_full;

/// A progress bar; hidden if standard error is no terminal, or if the report is JSON. Then a wait is a line.
pub(crate) struct MailProgressBar(ProgressBar, Output);

impl MailProgressBar {
    /// A bar of `all`, of which `before` are done.
    pub(crate) fn new(output: Output, all: u64, before: u64) -> Self {
        let shown = output.shows_progress() && !output.is_json();
        let target =
            if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(all), target).with_position(before);
        let form = "{bar:30} {human_pos} of {human_len}  {per_sec}  {eta}  {msg}";
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style);
        }
        bar.reset_eta();
        bar.enable_steady_tick(Duration::from_millis(250));
        Self(bar, output)
    }

    /// A count of what is read, such as `rows checked`.
    pub(crate) fn counting(output: Output, of: &str) -> Self {
        let bar = Self::new(output, 0, 0);
        bar.0.unset_length();
        if let Ok(style) = ProgressStyle::with_template(&format!("{{spinner}} {{human_pos}} {of}"))
        {
            bar.0.set_style(style);
        }
        bar
    }

    pub(crate) fn add(&self, more: u64) {
        self.0.inc(more);
    }

    /// Shows how much is done of a work of which all is known roughly, and what that is.
    pub(crate) fn show(&self, done: u64, of: u64, what: impl Into<Cow<'static, str>>) {
        self.0.set_length(of);
        self.0.set_position(done);
        self.0.set_message(what);
    }

    /// Says why the run waits: once, where there is no bar.
    fn wait(&self, said: String) {
        if self.0.is_hidden() && self.0.message() != said {
            self.1.remark(Tone::Warning, &said);
        }
        self.0.set_message(said);
    }
}

impl Drop for MailProgressBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

impl SendProgress for MailProgressBar {
    fn acknowledged(&self, rows: u64) {
        self.0.set_message("");
        self.0.inc(rows);
    }

    fn waiting(&self, depth: u64, most: u64) {
        let said = format!("the queue holds {} of {}: waiting", count(depth), count(most));
        self.0.set_message(said);
    }

    fn held_back(&self, level: BackPressureLevel) {
        self.wait(format!("the level is {level}, which defers these mails: waiting"));
    }

    fn paused(&self, detail: &str) {
        self.wait(format!("paused {detail}: waiting"));
    }

    fn retrying(&self, error: &(dyn StdError + 'static)) {
        self.0.set_message(format!("trying again: {}", in_full(error)));
    }
}
