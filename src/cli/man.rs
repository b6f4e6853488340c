//! `collectory man`: the manual pages, made of the same texts as `--help`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::CommandFactory as _;

use crate::cli::{Cli, Done, Failure};

/// Write the manual pages into a folder, one per command
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  collectory man /usr/local/share/man/man1
  collectory man /tmp/man && man -l /tmp/man/collectory-serve.1")]
pub(crate) struct Man {
    /// The folder, made when it is absent.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Man {
    pub(crate) fn run(&self) -> Result<Done, Failure> {
        let failed = || format!("cannot write the manual pages into {}", self.folder.display());
        fs::create_dir_all(&self.folder).with_context(failed)?;
        clap_mangen::generate_to(Cli::command(), &self.folder).with_context(failed)?;
        Ok(Done::Well)
    }
}
