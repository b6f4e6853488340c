//! A service that becomes unreachable during an import: the batch is executed completely or not at all.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::{fs, thread};

use crate::support::{ProgramOutput, TestServer, collectory_command, run_to_end};

const DECAP: &str = "backend: {name: git-gateway}\nmedia_folder: static/img\ncollections:\n\
                     \x20 - {name: posts, folder: content/posts}\n  - {name: pages, folder: content/pages}\n";

/// When the connection breaks.
#[derive(Clone, Copy, PartialEq)]
enum Breaks {
    /// Before the batch has reached the service.
    OnTheWayThere,
    /// After it was executed, but before the answer arrives.
    OnTheWayBack,
}

/// Starts a proxy to the service whose connection breaks at the first batch; it lives as long as the test.
fn line_to(service: SocketAddr, breaks: Breaks) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || carry(client, service, breaks));
        }
    });
    address
}

fn carry(mut client: TcpStream, service: SocketAddr, breaks: Breaks) {
    let mut server = TcpStream::connect(service).unwrap();
    let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let (release, released) = std::sync::mpsc::channel::<()>();
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(len @ 1..) = answers.read(&mut bytes) {
            let is_broken = released.try_recv().is_ok();
            if is_broken || back.write_all(&bytes[..len]).is_err() {
                break;
            }
        }
        back.shutdown(Shutdown::Both).ok();
    });
    let mut bytes = [0; 4096];
    while let Ok(len @ 1..) = client.read(&mut bytes) {
        if bytes[..len].starts_with(b"POST /operations") {
            if breaks == Breaks::OnTheWayThere {
                break;
            }
            release.send(()).unwrap();
        }
        if server.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    server.shutdown(Shutdown::Both).ok();
    client.shutdown(Shutdown::Both).ok();
}

fn import(server: &TestServer, to: SocketAddr) -> ProgramOutput {
    let url = format!("http://{to}");
    run_to_end(collectory_command(server.folder()).args([
        "import",
        "config.yml",
        "--to",
        &url,
        "--existing",
        "replace",
    ]))
}

#[tokio::test]
async fn a_batch_that_never_arrived_has_done_nothing() {
    let server = TestServer::start("small").await;
    fs::write(server.folder().join("config.yml"), DECAP).unwrap();
    let before = server.repo().head();
    let cut = import(&server, line_to(server.address(), Breaks::OnTheWayThere)).assert_exit_code(1);
    assert!(cut.stderr.contains("nothing was written, or all of it: import again to see"), "{}", cut.stderr);
    assert_eq!(server.repo().head(), before);
    import(&server, server.address()).assert_exit_code(0);
    assert_eq!(server.repo().commit_count(), 2);
}

#[tokio::test]
async fn a_batch_whose_answer_was_lost_has_done_everything_once() {
    let server = TestServer::start("small").await;
    fs::write(server.folder().join("config.yml"), DECAP).unwrap();
    let cut = import(&server, line_to(server.address(), Breaks::OnTheWayBack)).assert_exit_code(1);
    assert!(cut.stderr.contains("nothing was written, or all of it: import again to see"), "{}", cut.stderr);
    assert_eq!(server.repo().commit_count(), 2, "one commit has all of it");
    let again = import(&server, server.address()).assert_exit_code(0);
    assert_eq!(again.stdout.matches("unchanged ").count(), 3, "{}", again.stdout);
    assert_eq!(server.repo().commit_count(), 2);
}
