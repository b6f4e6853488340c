//! `collectory schema`: prints the JSON Schema of a collection file, for editors and programs.

use crate::cli::{Done, Failure, print};
use crate::domain;

/// Print the JSON Schema of a collection file
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, long_about = "\
Print the JSON Schema (draft 2020-12) of a collection file, which a service serves at /collection.schema.json. \
An editor with the YAML language server completes attributes with it and reports errors while you type; \
`collectory init` writes the settings for that.")]
pub(super) struct Schema {}

const EXAMPLES: &str = "\
Examples:
  collectory schema > .vscode/collection.schema.json   and in .vscode/settings.json
                                                       {\"yaml.schemas\": {\".vscode/collection.schema.json\": \"collections/*\"}}";

impl Schema {
    #[expect(clippy::unused_self, reason = "every command runs itself")]
    pub(super) fn run(self) -> Result<Done, Failure> {
        print(format!("{}\n", domain::schema()).as_bytes())?;
        Ok(Done::Well)
    }
}
