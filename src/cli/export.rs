//! `collectory export`: prints the collections in the form of another program.

use crate::cli::past::{AsOfArgs, HistoryArgs};
use crate::cli::{Done, Failure, note, print};
use crate::domain::Catalog;
use crate::exchange::export;
use crate::http::resources;

/// Print the collections in the form of another program
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, long_about = "\
Print the collections as they are served, or as they were, on standard output: as the list document of the \
API, as the settings file of a Laika content store, as the part of a Decap configuration that they know \
(fields, editor and backend are not kept here), as one YAML document, or as a table.

Importing what was exported as json, laika or yaml changes nothing, and as decap where the collections came from \
there. csv is for spreadsheets and can't be imported.")]
pub(super) struct Export {
    /// The output format.
    #[arg(long, env = "COLLECTORY_EXPORT_FORMAT", value_name = "FORMAT", value_enum, default_value_t = Form::Json)]
    format: Form,

    /// The same as --format json.
    #[arg(long, env = "COLLECTORY_JSON")]
    json: bool,

    #[command(flatten)]
    as_of: AsOfArgs,

    #[command(flatten)]
    place: HistoryArgs,
}

const EXAMPLES: &str = "\
Examples:
  collectory export > collections.json                               a copy, to import elsewhere
  collectory export --format laika > .contentbase/settings.json      for a Laika content store
  collectory export --format csv --as-of 2026-03-01                  a table of how it was";

/// The form of the exported collections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// The list document of the API.
    Json,
    /// Laika's settings file, as JSON.
    Laika,
    /// `collections`, `media_folder` and `public_folder` of a Decap configuration.
    Decap,
    /// One YAML document, which is Laika's YAML form too.
    Yaml,
    /// Comma-separated values, quoted as in RFC 4180, one line per collection, with Unix line ends.
    Csv,
}

impl Export {
    pub(super) fn run(self) -> Result<Done, Failure> {
        let snapshot = self.as_of.list(&self.place)?;
        let catalog = || snapshot.catalog().iter().map(|entry| entry.collection.clone()).collect::<Catalog>();
        let form = if self.json { Form::Json } else { self.format };
        let mut text = match form {
            Form::Json => resources::list(&snapshot).to_vec(),
            Form::Laika => laika(&catalog()).into_bytes(),
            Form::Decap => decap(&catalog()).into_bytes(),
            Form::Yaml => export::yaml(&catalog()).into_bytes(),
            Form::Csv => export::csv(&catalog())?,
        };
        if !text.ends_with(b"\n") {
            text.push(b'\n');
        }
        print(&text)?;
        Ok(Done::Well)
    }
}

/// Returns Laika's settings file; reports what had to be added to the collections.
fn laika(catalog: &Catalog) -> String {
    for added in export::additions(catalog) {
        note(&format!("Laika refuses what is not complete: {added}"));
    }
    export::laika(catalog)
}

/// Returns a Decap configuration; reports what it can't express.
fn decap(catalog: &Catalog) -> String {
    let text = export::decap(catalog);
    for lost in export::inexpressible(&text, catalog) {
        note(&format!("Decap's format can't express all of it: {lost}"));
    }
    text
}
