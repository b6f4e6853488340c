//! `collectory completions`: prints a shell's completion script.

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use crate::cli::{Cli, Done, Failure, print};

/// Print what a shell needs to complete this command line
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  collectory completions bash > /usr/share/bash-completion/completions/collectory
  collectory completions zsh > /usr/share/zsh/vendor-completions/_collectory
  collectory completions fish > ~/.config/fish/completions/collectory.fish")]
pub(crate) struct Completions {
    /// Which shell.
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Result<Done, Failure> {
        let mut script = Vec::new();
        generate(self.shell, &mut Cli::command(), "collectory", &mut script);
        print(&script)?;
        Ok(Done::Well)
    }
}
