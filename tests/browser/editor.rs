//! An editor set up by `collectory init`: the YAML language server completes and checks with our schema.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::driver::is_there;
use crate::support::{Repo, collectory_command, run_to_end};

/// After this many seconds the server counts as hung and is ended.
const SECONDS_MAX: &str = "60";

/// The language server as VS Code runs it, with the settings of a folder.
struct Editor {
    server: Child,
    answers: BufReader<ChildStdout>,
    folder: String,
    settings: Value,
    asked: u64,
}

impl Editor {
    fn open(repo: &Repo, server: &Path) -> Self {
        let mut command = Command::new("timeout");
        command.args(["--foreground", SECONDS_MAX]).arg(server).arg("--stdio");
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(server.stdout.take().unwrap());
        let settings = serde_json::from_str(&repo.read(".vscode/settings.json")).unwrap();
        let folder = format!("file://{}", repo.path().display());
        let mut editor = Self { server, answers, folder, settings, asked: 0 };
        let capabilities = json!({"workspace": {
            "configuration": true, "workspaceFolders": true, "didChangeConfiguration": {"dynamicRegistration": true},
        }});
        editor.ask(
            "initialize",
            json!({"processId": null, "rootUri": editor.folder, "capabilities": capabilities,
                   "workspaceFolders": [{"uri": editor.folder, "name": "settings"}]}),
        );
        editor.send(json!({"method": "initialized", "params": {}}));
        editor.send(
            json!({"method": "workspace/didChangeConfiguration", "params": {"settings": editor.settings}}),
        );
        editor
    }

    fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = "2.0".into();
        let text = message.to_string();
        write!(self.server.stdin.as_mut().unwrap(), "Content-Length: {}\r\n\r\n{text}", text.len()).unwrap();
    }

    /// Returns the next message; requests of the server are answered.
    fn hear(&mut self) -> Value {
        let mut len = 0;
        loop {
            let mut line = String::new();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "the server has ended");
            match line.trim().split_once(": ") {
                Some(("Content-Length", bytes)) => len = bytes.parse().unwrap(),
                Some(_) => {}
                None => break,
            }
        }
        let mut bytes = vec![0; len];
        self.answers.read_exact(&mut bytes).unwrap();
        let message: Value = serde_json::from_slice(&bytes).unwrap();
        if message["method"].is_string() && !message["id"].is_null() {
            let wanted = message["params"]["items"].as_array().cloned().unwrap_or_default();
            let section = |item: &Value| match item["section"].as_str() {
                Some("yaml") => json!({"schemas": self.settings["yaml.schemas"]}),
                Some("[yaml]" | "editor" | "files") => json!({}),
                _ => Value::Null,
            };
            let result: Vec<Value> = wanted.iter().map(section).collect();
            self.send(json!({"id": message["id"], "result": result}));
        }
        message
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.send(json!({"id": id, "method": method, "params": params}));
        loop {
            let message = self.hear();
            if message["id"] == id && message["method"].is_null() {
                return message["result"].clone();
            }
        }
    }

    /// Opens a file and returns its first diagnostics, with their lines.
    fn diagnostics(&mut self, name: &str, text: &str) -> Vec<(u64, String)> {
        self.show(name, text);
        loop {
            let diagnostics = self.next_told(name);
            // Until it knows the schema, the server reports no diagnostics.
            if !diagnostics.is_empty() {
                return diagnostics;
            }
        }
    }

    fn show(&mut self, name: &str, text: &str) {
        let document = json!({"uri": self.uri(name), "languageId": "yaml", "version": 1, "text": text});
        self.send(json!({"method": "textDocument/didOpen", "params": {"textDocument": document}}));
    }

    /// Returns the next diagnostics of an open file.
    fn next_told(&mut self, name: &str) -> Vec<(u64, String)> {
        let uri = self.uri(name);
        loop {
            let message = self.hear();
            if message["method"] == "textDocument/publishDiagnostics" && message["params"]["uri"] == *uri {
                let faults = message["params"]["diagnostics"].as_array().unwrap();
                let line = |fault: &Value| fault["range"]["start"]["line"].as_u64().unwrap() + 1;
                return faults
                    .iter()
                    .map(|it| (line(it), it["message"].as_str().unwrap().to_owned()))
                    .collect();
            }
        }
    }

    /// Returns the completions at the end of a file.
    fn offered(&mut self, name: &str, text: &str) -> Vec<String> {
        self.show(name, text);
        let line = text.matches('\n').count();
        let character = text.rsplit('\n').next().unwrap_or_default().len();
        let asked = json!({"textDocument": {"uri": self.uri(name)}, "position": {"line": line, "character": character}});
        let answer = self.ask("textDocument/completion", asked);
        let items = answer["items"].as_array().unwrap();
        items.iter().map(|item| item["label"].as_str().unwrap().to_owned()).collect()
    }

    fn uri(&self, name: &str) -> String {
        format!("{}/collections/{name}", self.folder)
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        self.server.kill().ok();
        self.server.wait().ok();
    }
}

#[test]
fn an_editor_completes_attributes_and_tells_what_is_wrong() {
    let server =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/node_modules/.bin/yaml-language-server");
    if !is_there(&[&server], "npm ci --prefix tests/browser") {
        return;
    }
    // The server ignores folders whose name begins with a dot.
    let folder = tempfile::Builder::new().prefix("collectory-editor-").tempdir().unwrap();
    run_to_end(collectory_command(folder.path()).args(["init", "mine"])).assert_exit_code(0);
    let mut editor = Editor::open(&Repo::at(folder.path().join("mine")), &server);
    for (name, text, line, message) in [
        ("name.yaml", "type: document\nnmae: Posts\n", 2, "Property nmae is not allowed."),
        (
            "kind.yaml",
            "type: media\nname: Photos\ndocumentTitleKey: title\n",
            3,
            "Property documentTitleKey is not allowed.",
        ),
        ("type.yaml", "type: pages\n", 1, "Value is not accepted. Valid values: \"document\", \"media\"."),
        ("list.yaml", "type: media\naccept: image/png\n", 2, "Incorrect type. Expected \"array\"."),
        (
            "up.yaml",
            "type: document\ndirectory: ../up\n",
            2,
            "A directory is a relative path with `/`, such as content/posts, without `.` and `..`, of at most 1,024 bytes.",
        ),
        ("none.yaml", "name: Posts\n", 1, "Missing property \"type\"."),
    ] {
        assert_eq!(editor.diagnostics(name, text), [(line, message.to_owned())], "{text}");
    }
    editor.show("fine.yaml", "type: document\nname: Fine\nx-mine: {a: 1}\n");
    assert_eq!(editor.next_told("fine.yaml"), []);
    let document = editor.offered("document.yaml", "type: document\n");
    assert!(
        ["name", "directory", "unpublishedStatuses"]
            .iter()
            .all(|it| document.iter().any(|label| label == it)),
        "{document:?}"
    );
    assert!(!document.contains(&"accept".to_owned()), "{document:?}");
    let media = editor.offered("media.yaml", "type: media\n");
    assert!(
        ["accept", "url", "pathFormat"].iter().all(|it| media.iter().any(|label| label == it)),
        "{media:?}"
    );
    assert!(!media.contains(&"documentTitleKey".to_owned()), "{media:?}");
    assert_eq!(editor.offered("kinds.yaml", "type: "), ["document", "media"]);
}
