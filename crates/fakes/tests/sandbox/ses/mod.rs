mod control;
mod program;
mod ses_api;
mod support;
mod version_1;
