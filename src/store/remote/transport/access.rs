//! How this instance authenticates to the remote, without a secret in an argument, an environment variable or a log.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::store::git_command::quoted;
use crate::store::remote::transport::url::{RemoteUrl, Transport, origin_of};
use crate::store::remote::transport::words::without_userinfo;

/// The user if the URL has none, as git hosts accept it with a token.
const USER_DEFAULT: &str = "x-access-token";

/// The length from which the user of a URL may be a token, which git hosts also accept there, and is never shown.
const TOKEN_LEN_MIN: usize = 16;

/// The variable that gives the file of the token to the program that git asks for a password: our own binary.
const TOKEN_FILE: &str = "COLLECTORY_ASKPASS_TOKEN_FILE";

/// The variable that gives it the user.
const USER: &str = "COLLECTORY_ASKPASS_USER";

/// The variable that gives it the scheme, host and port that the token is for; a remote may redirect git to another.
const ORIGIN: &str = "COLLECTORY_ASKPASS_ORIGIN";

/// The longest path of a folder in which ssh can have its socket: the 107 bytes of `sun_path` (unix(7)), less `/ssh-`,
/// the 40 of `%C`, and the 17 that ssh adds while it creates it.
const SOCKET_PATH_BYTES_MAX: usize = 107 - 5 - 40 - 17;

/// The files with the secrets, which are read again for each use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoteSecrets {
    /// The private key for ssh.
    pub key: Option<PathBuf>,
    /// The host keys that ssh may trust.
    pub known_hosts: Option<PathBuf>,
    /// The token for https.
    pub token_file: Option<PathBuf>,
}

impl RemoteSecrets {
    pub(crate) const fn has_token(&self) -> bool {
        self.token_file.is_some()
    }

    /// Configures how a git command authenticates. Connections are kept only if there is a `folder` of ours for them.
    pub(crate) fn configure_auth(&self, command: &mut Command, url: &RemoteUrl, folder: Option<&Path>) {
        if url.transport() != Transport::Http {
            // No redirect leads from https to what can be read on the way (git-config(1), `protocol.allow`).
            command.args(["-c", "protocol.http.allow=user"]);
        }
        command.env_remove("SSH_ASKPASS").env("SSH_ASKPASS_REQUIRE", "never").env_remove("GIT_ASKPASS");
        if let (Some(file), Ok(program)) = (&self.token_file, std::env::current_exe()) {
            // Otherwise the operator's credential helpers would be asked first.
            command.args(["-c", "credential.helper="]);
            command.env("GIT_ASKPASS", program).env(TOKEN_FILE, file);
            command.env(USER, url.user().as_deref().unwrap_or(USER_DEFAULT)).env(ORIGIN, url.origin());
        }
        let is_theirs = ["GIT_SSH_COMMAND", "GIT_SSH"].iter().any(|name| std::env::var_os(name).is_some());
        if url.transport() == Transport::Ssh
            && (self.key.is_some() || self.known_hosts.is_some() || !is_theirs)
        {
            command.env("GIT_SSH_COMMAND", self.ssh(folder)).env("GIT_SSH_VARIANT", "ssh");
        }
    }

    fn ssh(&self, folder: Option<&Path>) -> String {
        let mut options = vec![
            "BatchMode=yes".to_owned(),
            "StrictHostKeyChecking=yes".to_owned(),
            "ConnectTimeout=10".to_owned(),
            "ServerAliveInterval=5".to_owned(),
            "ServerAliveCountMax=2".to_owned(),
        ];
        if let Some(folder) = folder.filter(|folder| folder.as_os_str().len() <= SOCKET_PATH_BYTES_MAX) {
            options.extend(["ControlMaster=auto".to_owned(), "ControlPersist=60".to_owned()]);
            options.push(path_option("ControlPath", folder, "/ssh-%C"));
        }
        if let Some(key) = &self.key {
            options.extend(["IdentitiesOnly=yes".to_owned(), "IdentityAgent=none".to_owned()]);
            options.push(path_option("IdentityFile", key, ""));
        }
        if let Some(hosts) = &self.known_hosts {
            options.push("GlobalKnownHostsFile=/dev/null".to_owned());
            options.push(path_option("UserKnownHostsFile", hosts, ""));
        }
        let options = options.iter().map(|option| format!(" -o {}", quoted(option)));
        std::iter::once("ssh".to_owned()).chain(options).collect()
    }

    /// Drops the connections that are kept for the next command, after one that hung.
    pub(crate) fn forget_connections(&self, folder: &Path) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        let sockets =
            entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("ssh-"));
        sockets.for_each(|entry| drop(fs::remove_file(entry.path())));
    }

    /// Removes the token and the user from a message of git or the remote, which may repeat them.
    pub(crate) fn without_secrets(&self, said: &str, url: &RemoteUrl) -> String {
        let token = self.token_file.as_deref().and_then(|file| token(file).ok());
        let user = url.user().filter(|user| user.len() >= TOKEN_LEN_MIN);
        let secrets = token.into_iter().chain(user).filter(|secret| !secret.is_empty());
        secrets.fold(without_userinfo(said), |said, secret| {
            let encoded = utf8_percent_encode(&secret, NON_ALPHANUMERIC).to_string();
            said.replace(&secret, "***").replace(&encoded, "***")
        })
    }
}

/// Returns an option of ssh with a path and what follows it. `ssh_config(5)` ends an unquoted value at a blank, reads
/// quotation marks and backslashes in it, and expands `%`.
fn path_option(name: &str, path: &Path, rest: &str) -> String {
    let path = path.display().to_string();
    let path = path.replace('\\', r"\\").replace('"', "\\\"").replace('%', "%%");
    format!("{name}=\"{path}{rest}\"")
}

fn token(file: &Path) -> io::Result<String> {
    Ok(fs::read_to_string(file)?.trim().to_owned())
}

/// Returns the answer if git has started this program to ask for a user or a password; `None` if it has not. For
/// another host than the remote's the answer is empty, and git reports that the authentication failed there.
///
/// # Errors
///
/// Fails with the file of the token when it can't be read.
#[must_use]
pub fn askpass(arguments: &[String]) -> Option<Result<String, String>> {
    let file = std::env::var_os(TOKEN_FILE)?;
    let [_, prompt] = arguments else { return None };
    if prompt.starts_with("Username") {
        return std::env::var_os(USER)?.into_string().ok().map(Ok);
    }
    let origin = std::env::var_os(ORIGIN)?.into_string().ok()?;
    if asks_for(prompt).is_none_or(|asking| !asking.eq_ignore_ascii_case(&origin)) {
        return Some(Ok(String::new()));
    }
    let file = Path::new(&file);
    Some(token(file).map_err(|error| format!("{} cannot be read: {error}", file.display())))
}

/// Returns the scheme, host and port that a password is asked for: `Password for 'https://user@host:443/path': `.
fn asks_for(prompt: &str) -> Option<String> {
    let (_, quoted) = prompt.split_once('\'')?;
    let (url, _) = quoted.rsplit_once('\'')?;
    let (scheme, authority) = origin_of(url).split_once("://")?;
    let host = authority.rsplit('@').next()?;
    Some(format!("{scheme}://{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_asked_for_by_one_host() {
        for (prompt, origin) in [
            ("Password for 'https://x-access-token@git.example.org': ", Some("https://git.example.org")),
            ("Password for 'http://a%40b@127.0.0.1:81/x.git': ", Some("http://127.0.0.1:81")),
            ("Password for 'http://git.example.org@evil.example': ", Some("http://evil.example")),
            ("Passphrase: ", None),
        ] {
            assert_eq!(asks_for(prompt).as_deref(), origin, "{prompt}");
        }
    }

    #[test]
    fn what_is_said_shows_no_token() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        fs::write(&file, "s3cret/1\n").unwrap();
        let access = RemoteSecrets { token_file: Some(file), ..RemoteSecrets::default() };
        let url = |text: &str| text.parse::<RemoteUrl>().unwrap();
        let shown = access.without_secrets("no s3cret/1 or s3cret%2F1 here", &url("https://mara@host/a"));
        assert_eq!(shown, "no *** or *** here");
        let said = "ghp_0123456789abcdef of mara at https://mara@host";
        let shown = access.without_secrets(said, &url("https://ghp_0123456789abcdef@host/a"));
        assert_eq!(shown, "*** of mara at https://***@host");
    }

    #[test]
    fn a_user_is_answered_to_git_as_it_is_and_not_as_a_url_has_it() {
        let access = RemoteSecrets { token_file: Some("/token".into()), ..RemoteSecrets::default() };
        let mut command = Command::new("git");
        access.configure_auth(&mut command, &"https://mara%40example.org@host/a".parse().unwrap(), None);
        let user = command.get_envs().find(|(name, _)| *name == USER).and_then(|(_, user)| user);
        assert_eq!(user, Some("mara@example.org".as_ref()));
    }

    #[test]
    fn ssh_is_told_what_to_trust_and_never_asks() {
        let access =
            RemoteSecrets { key: Some("/k'ey".into()), known_hosts: Some("/hosts".into()), token_file: None };
        let ssh = access.ssh(Some(Path::new("/srv/x")));
        for part in [
            "-o 'BatchMode=yes'",
            "-o 'StrictHostKeyChecking=yes'",
            r#"-o 'IdentityFile="/k'\''ey"'"#,
            r#"-o 'UserKnownHostsFile="/hosts"'"#,
            r#"-o 'ControlPath="/srv/x/ssh-%C"'"#,
        ] {
            assert!(ssh.contains(part), "{ssh}");
        }
        assert!(
            !access.ssh(Some(Path::new(&"x".repeat(200)))).contains("ControlPath"),
            "no socket has so long a path"
        );
    }

    #[test]
    fn a_path_for_ssh_may_have_any_character() {
        let path = Path::new(r#"/my "set\tings" 100%"#);
        assert_eq!(
            path_option("ControlPath", path, "/ssh-%C"),
            r#"ControlPath="/my \"set\\tings\" 100%%/ssh-%C""#
        );
    }
}
