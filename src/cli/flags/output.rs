//! In which form a command prints what it has to say.

use crate::cli::Failure;

/// In which form something is printed.
#[derive(Debug, clap::Args)]
pub(crate) struct Output {
    /// How to show it: lines for people, JSON for programs, or a table for a spreadsheet where there is one (`list`,
    /// `get`, `log`, `export`).
    #[arg(long, env = "COLLECTORY_FORMAT", value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
    format: Format,

    /// The same as --format json.
    #[arg(long, env = "COLLECTORY_JSON")]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Lines for people.
    Text,
    /// JSON; resources are those of JSON:API, and where there are several, each has a line.
    Json,
    /// Comma-separated values, quoted as RFC 4180 says, with a line of names; lines end as on Unix.
    Csv,
}

impl Output {
    pub(crate) const fn is_json(&self) -> bool {
        self.json || matches!(self.format, Format::Json)
    }

    pub(crate) const fn is_csv(&self) -> bool {
        !self.is_json() && matches!(self.format, Format::Csv)
    }

    /// Refuses the form that a command has not.
    pub(crate) fn without_table(&self) -> Result<(), Failure> {
        if self.is_csv() {
            return Err(Failure::Usage("only list, get, log and export know --format csv".to_owned()));
        }
        Ok(())
    }
}
