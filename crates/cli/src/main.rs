//! The `anabranch` command: parse, resolve, run.
//!
//! `args` holds clap types and no logic, `settings` what they resolve to, `command` one file per
//! verb, each returning an [`exit::Exit`] or a [`failure::Failure`]; `printer` is the only place
//! that prints. Every verb but `verify`, `inspect` and `demo` talks HTTP, also to a node that it
//! opened itself with `--dir`.

mod args;
mod command;
mod connection;
mod demo;
mod exit;
mod failure;
mod local;
mod parse;
mod printer;
mod settings;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Cli;
use crate::command::Context;
use crate::printer::Printer;
use crate::settings::Settings;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return printer::usage(&error, std::env::args_os()).into(),
    };
    let settings = Settings::resolve(&cli.global);
    let printer = Printer::new(&settings);
    printer.start_log(cli.command.serves());
    let context = Context { settings, printer };
    let exit = match command::run(&context, cli.command).and_then(|exit| {
        context.printer.flush()?;
        Ok(exit)
    }) {
        Ok(exit) => exit,
        Err(failure) => context.printer.failure(&failure),
    };
    exit.into()
}
