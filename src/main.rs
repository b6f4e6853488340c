//! The command line of Collectory; see the library for everything else.

use std::process::ExitCode;

use clap::Parser as _;
use collectory::cli::{Cli, report};

fn main() -> ExitCode {
    report(Cli::parse().run())
}
