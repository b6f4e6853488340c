//! The command line: each variant of `Command` has its own file.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | success |
//! | 1 | found problems, or failed |
//! | 2 | wrong usage |
//!
//! Results are printed on standard output, everything else on standard error.

mod backup;
mod check;
mod completions;
mod doctor;
mod export;
mod flags;
mod healthcheck;
mod import;
mod init;
mod man;
mod offline;
mod past;
mod remote;
mod schema;
mod scratch;
mod serve;
mod take_back;
mod token;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::domain::REASON_BYTES_MAX;
use crate::format::turns_text;
use crate::store::StoreError;
use crate::store::remote::without_userinfo;
use crate::telemetry;

/// Collection settings in a git repository, over JSON:API
#[derive(Debug, Parser)]
#[command(name = "collectory", version, after_help = EXAMPLES, max_term_width = 100)]
#[command(long_about = "\
Collectory keeps the collection settings of a content store as one YAML file per collection in a git \
repository, and serves them as JSON:API. Every change through the API is one durable commit, every edit \
by hand is live at once, and the history is the audit log.

Every flag can be set by an environment variable, which its help names; one without a value is set by 1, true, \
yes or on.")]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  collectory serve --auth allow-all          serve ./settings, made when absent, to everybody
  collectory token Mara --policy policy.yaml make a token, and then:
  collectory serve --auth policy.yaml        serve to whoever has a token
  collectory check                           look for problems in ./settings
  collectory log posts                       who changed a collection, when and why";

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::Serve>),
    Init(init::Init),
    Import(Box<import::Import>),
    Export(export::Export),
    Schema(schema::Schema),
    Check(check::Check),
    Token(token::Token),
    List(past::List),
    Get(past::Get),
    Log(past::Log),
    Show(past::Show),
    Diff(past::Diff),
    Blame(past::Blame),
    Verify(past::Verify),
    Undo(take_back::Undo),
    Restore(take_back::Restore),
    Remote(Box<remote::Remote>),
    Backup(backup::Backup),
    Doctor(doctor::Doctor),
    Healthcheck(healthcheck::Healthcheck),
    Completions(completions::Completions),
    Man(man::Man),
}

/// The outcome of a command that was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// No problems.
    Well,
    /// It found problems and reported them.
    FoundProblems,
}

/// Why a command was not carried out.
#[derive(Debug)]
pub enum Failure {
    /// The usage is wrong; the sentence says what is right.
    Usage(String),
    /// It failed for this reason.
    Failed(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        let misnamed = error.chain().find(|cause| {
            cause.downcast_ref::<StoreError>().is_some_and(|error| matches!(error, StoreError::Misnamed(_)))
        });
        match misnamed {
            Some(sentence) => Self::Usage(sentence.to_string()),
            None => Self::Failed(error),
        }
    }
}

/// The arguments that identify the repository and how it is written to.
const OF_REPOSITORY: [&str; 4] = ["repository", "branch", "folder", "signing_key"];

impl Cli {
    /// Parses the command line. Prints help or a usage error if there is one, and ends the process.
    #[must_use]
    pub fn read() -> Self {
        let mut command = with_boolish_variables(Self::command());
        let matches = command
            .try_get_matches_from_mut(std::env::args_os())
            .unwrap_or_else(|error| print_and_exit(&error));
        if let Some(why) = contradiction(&command, &matches) {
            print_and_exit(&command.error(ErrorKind::ArgumentConflict, why));
        }
        Self::from_arg_matches(&matches).unwrap_or_else(|error| print_and_exit(&error))
    }

    /// Runs the command; `give_back` makes the allocator return memory that the current thread has freed.
    ///
    /// # Errors
    ///
    /// Says why the command was not carried out.
    pub fn run(self, give_back: fn()) -> Result<Done, Failure> {
        match self.command {
            Command::Serve(serve) => {
                unknown_variables().for_each(|name| {
                    note(&format!("there is no variable {name}; `collectory serve --help` names them"));
                });
                serve.run(give_back)
            }
            Command::Init(init) => init.run(),
            Command::Import(import) => import.run(),
            Command::Export(export) => export.run(),
            Command::Schema(schema) => schema.run(),
            Command::Check(check) => check.run(),
            Command::Token(token) => token.run(),
            Command::List(list) => list.run(),
            Command::Get(get) => get.run(),
            Command::Log(log) => log.run(),
            Command::Show(show) => show.run(),
            Command::Diff(diff) => diff.run(),
            Command::Blame(blame) => blame.run(),
            Command::Verify(verify) => verify.run(),
            Command::Undo(undo) => undo.run(),
            Command::Restore(restore) => restore.run(),
            Command::Remote(remote) => remote.run(),
            Command::Backup(backup) => backup.run(),
            Command::Doctor(doctor) => doctor.run(),
            Command::Healthcheck(healthcheck) => healthcheck.run(),
            Command::Completions(completions) => completions.run(),
            Command::Man(man) => man.run(),
        }
    }
}

/// Lets the variable of a flag without a value be written as people write such variables.
fn with_boolish_variables(command: clap::Command) -> clap::Command {
    let boolish = |arg: Arg| match arg.get_action() {
        ArgAction::SetTrue => arg.value_parser(is_set),
        _ => arg,
    };
    command.mut_args(boolish).mut_subcommands(with_boolish_variables)
}

/// Parses the variable of a flag without a value; an empty one is as good as none.
fn is_set(text: &str) -> Result<bool, &'static str> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "" | "0" | "false" | "no" | "off" => Ok(false),
        _ => Err("write true or false"),
    }
}

/// Returns the usage error for a flag that has no effect with `--to`, because a running service knows its repository
/// and remote. Environment variables are set for all commands, so they are ignored instead.
fn contradiction(command: &clap::Command, matches: &ArgMatches) -> Option<String> {
    let (mut command, mut matches) = (command, matches);
    while let Some((name, inner)) = matches.subcommand() {
        (command, matches) = (command.find_subcommand(name)?, inner);
    }
    let source = |arg: &Arg| matches.value_source(arg.get_id().as_str());
    let to = command.get_arguments().find(|arg| arg.get_long() == Some("to"))?;
    source(to)?;
    let is_idle = |arg: &&Arg| {
        OF_REPOSITORY.contains(&arg.get_id().as_str()) || arg.get_help_heading() == Some("Many machines")
    };
    let given = |arg: &&Arg| source(arg) == Some(ValueSource::CommandLine);
    let idle = command.get_arguments().filter(is_idle).find(given)?.get_long()?;
    Some(format!(
        "--to asks the service that is running there, and --{idle} is for what is done without one; give one of the two"
    ))
}

/// Returns a command and all its subcommands.
fn commands(command: &clap::Command) -> Vec<&clap::Command> {
    std::iter::once(command).chain(command.get_subcommands().flat_map(commands)).collect()
}

/// Returns the environment variables with our prefix that belong to no flag; they are usually mistyped.
fn unknown_variables() -> impl Iterator<Item = String> {
    let command = Cli::command();
    let flags = commands(&command).into_iter().flat_map(clap::Command::get_arguments);
    let known: Vec<OsString> = flags.filter_map(|arg| arg.get_env().map(ToOwned::to_owned)).collect();
    let names = std::env::vars_os().map(|(name, _)| name).filter(move |name| !known.contains(name));
    names.filter_map(|name| name.into_string().ok()).filter(|name| name.starts_with("COLLECTORY_"))
}

/// Prints help or a usage error and ends the process. clap repeats parts of the command line, where a URL may contain
/// a password, so passwords are removed.
fn print_and_exit(error: &clap::Error) -> ! {
    let message = error.to_string();
    let shown = without_userinfo(&message);
    if shown == message {
        error.exit()
    }
    clap::Error::raw(error.kind(), shown.trim_start_matches("error: ")).exit()
}

/// Prints a failure with all its causes and returns the exit code.
#[must_use]
pub fn report(outcome: Result<Done, Failure>) -> ExitCode {
    let (text, code) = match outcome {
        Ok(Done::Well) => (None, 0),
        Ok(Done::FoundProblems) => (None, 1),
        Err(Failure::Usage(sentence)) => (Some(sentence), 2),
        Err(Failure::Failed(error)) => (Some(format!("{error:#}")), 1),
    };
    text.iter().for_each(|text| note(text));
    telemetry::finish();
    ExitCode::from(code)
}

/// Prints a message for the person at the terminal.
fn note(text: &str) {
    let lines: Vec<String> = without_userinfo(text).split('\n').map(plain).collect();
    telemetry::print(&format!("collectory: {}\n", lines.join("\n")));
}

/// Parses the reason for a change, up to the length that a request may have.
fn reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.len() > REASON_BYTES_MAX {
        return Err(format!("a reason has at most {REASON_BYTES_MAX} bytes, this one has {}", text.len()));
    }
    Ok(text.to_owned())
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Formats a number of things.
fn counted(count: usize, noun: &str) -> String {
    match count {
        0 => format!("no {noun}s"),
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// Answers git, which runs this program to ask for a user name or a password; `None` if git did not.
#[must_use]
pub fn askpass() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args_os().map(|it| it.to_string_lossy().into_owned()).collect();
    Some(match crate::store::remote::askpass(&arguments)? {
        Ok(secret) if answer(&secret).is_ok() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            // Git shows this to its caller.
            let _closed = writeln!(io::stderr(), "{why}");
            ExitCode::FAILURE
        }
    })
}

/// Whether a character controls a terminal or reorders the text after it.
fn is_terminal_control(c: char) -> bool {
    c.is_control() || turns_text(c)
}

/// Replaces the characters of an untrusted text that control a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if is_terminal_control(c) { '\u{fffd}' } else { c }).collect()
}

/// Escapes the characters of a JSON line that control a terminal; they occur only in its strings.
fn json_line(json: &str) -> Cow<'_, str> {
    if !json.contains(is_terminal_control) {
        return Cow::Borrowed(json);
    }
    let escaped = |c: char| match is_terminal_control(c) {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    };
    json.chars().map(escaped).collect()
}

/// Prints output that people may page through; a reader that closes the pipe early is no error.
fn print(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

/// Prints lines as [`print()`] does.
fn print_lines(lines: &[String]) -> io::Result<()> {
    print(lines.iter().map(|line| format!("{line}\n")).collect::<String>().as_bytes())
}

/// Prints a line on standard output.
fn answer(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_flag_without_a_value_is_set_by_its_variable_as_people_write_it() {
        let command = with_boolish_variables(Cli::command());
        command.clone().debug_assert();
        for (text, expected) in
            [("1", true), ("YES", true), ("on", true), ("0", false), ("", false), ("off", false)]
        {
            assert_eq!(is_set(text), Ok(expected), "{text}");
        }
        assert!(is_set("maybe").is_err());
        let matches = command.try_get_matches_from(["collectory", "list", "--json"]).unwrap();
        assert!(matches.subcommand_matches("list").unwrap().get_flag("json"));
    }

    #[test]
    fn every_flag_has_an_environment_variable() {
        let program = Cli::command();
        for command in commands(&program) {
            for arg in command.get_arguments().filter(|arg| arg.get_long().is_some()) {
                let long = arg.get_long().unwrap();
                assert!(
                    arg.get_env().is_some() || matches!(long, "help" | "version"),
                    "{} --{long}",
                    command.get_name()
                );
            }
        }
    }

    #[test]
    fn what_people_wrote_drives_no_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\tc\u{9b}"), "a\u{fffd}[31mb\u{fffd}c\u{fffd}");
        assert_eq!(plain("x-\u{202e}abc\u{2066}"), "x-\u{fffd}abc\u{fffd}");
        assert_eq!(plain("Käse \"x\""), "Käse \"x\"");
    }

    #[test]
    fn a_line_of_json_drives_no_terminal_and_says_the_same() {
        for name in ["a\u{9b}31m\u{202e}b\u{7f}ä\u{1b}", "a\u{7f}"] {
            let document = serde_json::json!({ "name": name });
            let line = document.to_string();
            let shown = json_line(&line);
            assert!(!shown.contains(is_terminal_control), "{shown:?}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), document);
        }
    }

    #[test]
    fn a_failure_is_told_by_its_exit_code() {
        let code = |outcome| format!("{:?}", report(outcome));
        assert_eq!(code(Ok(Done::FoundProblems)), format!("{:?}", ExitCode::from(1)));
        assert_eq!(code(Err(Failure::Usage(String::new()))), format!("{:?}", ExitCode::from(2)));
        assert_eq!(code(Err(anyhow::anyhow!("no").into())), format!("{:?}", ExitCode::from(1)));
    }
}
