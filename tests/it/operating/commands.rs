//! What is installed beside the service, and health checks.

use std::fs;

use crate::support::{Process, TestServer, collectory_command, run_to_end};

#[test]
fn every_shell_gets_its_completions() {
    let folder = tempfile::tempdir().unwrap();
    for (shell, mark) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef collectory"),
        ("fish", "complete -c collectory"),
        ("elvish", "edit:completion"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let script = run_to_end(collectory_command(folder.path()).args(["completions", shell]))
            .assert_exit_code(0)
            .stdout;
        assert!(script.contains(mark) && script.contains("healthcheck"), "{shell}: {script}");
    }
    run_to_end(collectory_command(folder.path()).args(["completions", "tcsh"])).assert_exit_code(2);
}

#[test]
fn every_command_has_its_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("share/man/man1");
    run_to_end(collectory_command(folder.path()).arg("man").arg(&pages)).assert_exit_code(0);
    let page = fs::read_to_string(pages.join("collectory-serve.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("COLLECTORY_LISTEN"), "{page}");
    for name in ["collectory.1", "collectory-token.1", "collectory-token-revoke.1", "collectory-backup.1"] {
        assert!(pages.join(name).is_file(), "{name}");
    }
}

#[tokio::test]
async fn a_health_check_is_an_exit_code() {
    let server = TestServer::setup("small").base_path("/settings").start().await;
    let address = server.address().to_string();
    let check = |url: &str| run_to_end(collectory_command(server.folder()).args(["healthcheck", url]));
    for path in ["", "/", "/livez", "/readyz", "/settings", "/settings/"] {
        check(&format!("http://{address}{path}")).assert_exit_code(0);
    }
    let elsewhere = check(&format!("http://{address}/elsewhere")).assert_exit_code(1);
    assert!(elsewhere.stderr.contains("404"), "{}", elsewhere.stderr);
    run_to_end(collectory_command(server.folder()).arg("healthcheck").env("COLLECTORY_LISTEN", &address))
        .assert_exit_code(0);
    check("ftp://example.org").assert_exit_code(2);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = check(&format!("http://{nobody}")).assert_exit_code(1);
    assert!(refused.stderr.contains("cannot reach"), "{}", refused.stderr);
    let with_password = format!("http://mara:hunter2@{nobody}");
    let refused = check(&with_password).assert_exit_code(1);
    assert!(refused.stderr.contains(&format!("***@{nobody}")), "{}", refused.stderr);
    assert!(!refused.stderr.contains("hunter2"), "{}", refused.stderr);
    let doctor = ["doctor", "--repo", ".", "--address", &with_password];
    let found = run_to_end(collectory_command(server.repo().path()).args(doctor)).assert_exit_code(1);
    assert!(found.stdout.contains("cannot reach") && !found.stdout.contains("hunter2"), "{}", found.stdout);
}

#[tokio::test]
async fn a_service_at_a_socket_has_a_health_check_too() {
    let folder = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}", folder.path().join("collectory.sock").display());
    let check =
        || run_to_end(collectory_command(folder.path()).arg("healthcheck").env("COLLECTORY_LISTEN", &socket));
    assert!(check().assert_exit_code(1).stderr.contains("cannot ask at unix:"));
    let mut service = collectory_command(folder.path());
    let _service = Process::spawn(service.args(["serve", "--auth", "none", "--listen", &socket]));
    check().assert_exit_code(0);
    let doctor = run_to_end(collectory_command(folder.path()).args(["doctor", "--address", &socket]));
    assert!(!doctor.stdout.contains("service:"), "{}", doctor.stdout);
}
