//! The source of an import.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::cli::{Failure, plain};
use crate::domain::{Catalog, Key, Value};
use crate::exchange::{self, Form, ImportOptions, ImportSource, Parsed};
use crate::format::Fault;
use crate::format::foreign::SOURCE_BYTES_MAX;

/// The file to import and its form.
#[derive(Debug, clap::Args)]
pub(super) struct SourceArgs {
    /// The file; `-` is standard input.
    #[arg(value_name = "FILE|-")]
    file: PathBuf,

    /// The form of the file; `auto` detects it.
    #[arg(long, env = "COLLECTORY_FROM", value_name = "FORM", value_enum, default_value_t = From::Auto)]
    from: From,

    /// What to do with Decap's collections of single files: skip them, or keep each as a collection of documents if
    /// all of its files are in one folder.
    #[arg(long, env = "COLLECTORY_FILES", value_name = "WHAT", value_enum, default_value_t = Files::Skip)]
    files: Files,

    /// The key of the media collection made from Decap's `media_folder`.
    #[arg(long, env = "COLLECTORY_MEDIA_KEY", value_name = "KEY", default_value = "media",
          value_parser = Key::parse)]
    media_key: Key,

    /// The folder of Laika's schemas, `.contentbase/schemas`: KEY.json becomes `x-schema` of KEY.
    #[arg(long, env = "COLLECTORY_SCHEMAS", value_name = "DIR")]
    schemas: Option<PathBuf>,
}

/// The form of the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum From {
    /// Detect the form.
    Auto,
    /// Laika's settings, as JSON or YAML.
    Laika,
    /// The configuration of Decap, Netlify, Static or Sveltia CMS.
    Decap,
    /// A document of the API, as `collectory export` gives it.
    Json,
}

/// What to do with collections of single files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Files {
    /// Report them and leave them out.
    Skip,
    /// Keep those whose files are in one folder.
    Keep,
}

impl SourceArgs {
    /// Parses the file; reports a fault and returns `None` if it can't be parsed.
    pub(super) fn parse(&self) -> Result<Option<Parsed>, Failure> {
        let form = match self.from {
            From::Auto => None,
            From::Laika => Some(Form::Laika),
            From::Decap => Some(Form::Decap),
            From::Json => Some(Form::Json),
        };
        if self.schemas.is_some() && matches!(form, Some(Form::Decap | Form::Json)) {
            return Err(Failure::Usage(
                "--schemas goes with --from laika: only Laika has schemas".to_owned(),
            ));
        }
        Ok(self.or_report(exchange::parse(&self.bytes()?, form)))
    }

    /// Reads the file's collections over the existing ones; reports a fault and returns `None` if that fails.
    pub(super) fn read(&self, parsed: &Parsed, there: &Catalog) -> anyhow::Result<Option<ImportSource>> {
        let Some(schemas) = self.schemas()? else { return Ok(None) };
        let keep_files = self.files == Files::Keep;
        let options = ImportOptions { keep_files, media_key: self.media_key.clone(), schemas };
        let Some(source) = self.or_report(parsed.read(&options, there)) else { return Ok(None) };
        for Fault { line, column, message } in &source.notes {
            self.report(&Fault { line: *line, column: *column, message: format!("note: {message}") });
        }
        Ok(Some(source))
    }

    fn or_report<T>(&self, read: Result<T, Fault>) -> Option<T> {
        read.map_err(|fault| self.report(&fault)).ok()
    }

    /// Reports a fault with its position, as compilers do.
    pub(super) fn report(&self, fault: &Fault) {
        print_fault(&self.file, fault);
    }

    fn bytes(&self) -> anyhow::Result<Vec<u8>> {
        if self.file == Path::new("-") {
            return bounded(io::stdin()).context("cannot read standard input");
        }
        read_file(&self.file)
    }

    /// Returns the schemas by key; reports a fault and returns `None` if one can't be read.
    fn schemas(&self) -> anyhow::Result<Option<exchange::Schemas>> {
        let mut schemas = exchange::Schemas::new();
        let Some(folder) = &self.schemas else { return Ok(Some(schemas)) };
        let failed = || format!("cannot read the folder {}", folder.display());
        for entry in fs::read_dir(folder).with_context(failed)? {
            let path = entry.with_context(failed)?.path();
            let key = path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
            let Some(key) = key.filter(|_| path.extension().is_some_and(|ending| ending == "json")) else {
                continue;
            };
            match exchange::read_value(&read_file(&path)?) {
                Ok(schema @ Value::Map(_)) => drop(schemas.insert(key, schema)),
                Ok(_) => {
                    let message = "a schema is an object".to_owned();
                    print_fault(&path, &Fault { line: 1, column: 1, message });
                    return Ok(None);
                }
                Err(fault) => {
                    print_fault(&path, &fault);
                    return Ok(None);
                }
            }
        }
        Ok(Some(schemas))
    }
}

fn read_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path.is_dir() {
        bail!("{} is a folder; name the file in it", path.display());
    }
    let read = || format!("cannot read {}", path.display());
    bounded(File::open(path).with_context(read)?).with_context(read)
}

/// Reads one byte more than the limit, which is enough to refuse the input.
fn bounded(reader: impl io::Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(SOURCE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn print_fault(path: &Path, Fault { line, column, message }: &Fault) {
    // If standard error is closed, the message is not wanted.
    let _closed = writeln!(io::stderr(), "{}:{line}:{column}: {}", path.display(), plain(message));
}
