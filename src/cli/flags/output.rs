//! The output format of a command.

use crate::cli::Failure;

/// The output format.
#[derive(Debug, clap::Args)]
pub(crate) struct Output {
    /// The output format: lines for people, JSON for programs, or a table for a spreadsheet where there is one
    /// (`list`, `get`, `log`, `export`).
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
    /// Comma-separated values, quoted as in RFC 4180, with a header line and Unix line ends.
    Csv,
}

impl Output {
    pub(crate) const fn is_json(&self) -> bool {
        self.json || matches!(self.format, Format::Json)
    }

    pub(crate) const fn is_csv(&self) -> bool {
        !self.is_json() && matches!(self.format, Format::Csv)
    }

    /// Refuses CSV for a command without a table.
    pub(crate) fn refuse_csv(&self) -> Result<(), Failure> {
        if self.is_csv() {
            return Err(Failure::Usage("only list, get, log and export know --format csv".to_owned()));
        }
        Ok(())
    }
}
