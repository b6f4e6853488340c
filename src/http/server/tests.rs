//! Tests against real sockets, byte by byte.

use std::time::Instant;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::sync::mpsc;
use tower_service::Service as _;
use warp::Filter as _;
use warp::filters::BoxedFilter;

use crate::http::server::*;

/// A server with one route that answers `GET /` at once and one that holds `GET /held` until it is released.
struct Running {
    address: SocketAddr,
    shutdown: Shutdown,
    held: mpsc::UnboundedReceiver<()>,
    release: Arc<Semaphore>,
    reached: LimitCounters,
}

impl Answers for BoxedFilter<(Response,)> {
    fn answer(
        &self,
        request: Request<Incoming>,
        _line: Arc<ClientConnection>,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send + use<> {
        warp::service(self.clone()).call(request)
    }
}

async fn local() -> (Server, SocketAddr) {
    let server = Server::bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).await.unwrap();
    let Bound::Tcp(address) = *server.bound() else { panic!("{server:?}") };
    (server, address)
}

/// Starts a server with changed limits.
async fn start_with(change: impl FnOnce(&mut Limits)) -> Running {
    let mut limits = Limits::DEFAULT;
    change(&mut limits);
    let (holds, held) = mpsc::unbounded_channel();
    let release = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&release);
    let at_once = warp::path::end().map(|| Response::new("[1]".into()));
    let large = warp::path!("large").map(|| Response::new("x".repeat(64 * 1024 * 1024).into()));
    let waiting = warp::path!("held").then(move || {
        let (gate, holds) = (Arc::clone(&gate), holds.clone());
        async move {
            holds.send(()).unwrap();
            drop(gate.acquire().await);
            Response::new("[2]".into())
        }
    });
    let routes = at_once.or(large).unify().or(waiting).unify().boxed();
    let (server, address) = local().await;
    let shutdown = Shutdown::new();
    let inside = shutdown.clone();
    let reached = LimitCounters::default();
    let counts = reached.clone();
    shutdown.spawn(async move { server.serve(routes, &limits, &counts, &inside).await });
    Running { address, shutdown, held, release, reached }
}

impl Running {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn exchange(&self, request: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request).await.unwrap();
        rest(&mut stream).await
    }
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

async fn until(stream: &mut TcpStream, text: &str) -> String {
    let mut answer = String::new();
    while !answer.contains(text) {
        let mut buffer = [0; 1024];
        let read = stream.read(&mut buffer).await.unwrap();
        assert_ne!(read, 0, "closed after {answer:?}");
        answer.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
    answer
}

#[track_caller]
fn is_refusal(answer: &str, status: u16, code: &str) {
    let (head, body) = answer.split_once("\r\n\r\n").expect(answer);
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    for field in ["cache-control: no-store", "content-type: application/vnd.api+json", "date: "] {
        assert!(head.contains(field), "{field} in {answer}");
    }
    let body: serde_json::Value = serde_json::from_str(body).expect(answer);
    assert_eq!(body["errors"][0]["code"], code);
    assert_eq!(body["errors"][0]["status"], status.to_string());
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const LAST_GET: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let server = start_with(|_| ()).await;
    let mut stream = server.connect().await;
    stream.write_all(GET).await.unwrap();
    assert!(until(&mut stream, "[1]").await.starts_with("HTTP/1.1 200 OK\r\n"));
    stream.write_all(LAST_GET).await.unwrap();
    assert!(rest(&mut stream).await.ends_with("[1]"));
}

#[tokio::test]
async fn a_client_that_has_shut_its_sending_half_is_answered() {
    let server = start_with(|_| ()).await;
    let mut stream = server.connect().await;
    stream.write_all(GET).await.unwrap();
    stream.shutdown().await.unwrap();
    assert!(rest(&mut stream).await.ends_with("[1]"));
}

#[tokio::test]
async fn a_broken_head_is_answered_with_a_json_api_error() {
    let server = start_with(|_| ()).await;
    for request in [
        &b"\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: me@x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let answer = server.exchange(request).await;
        is_refusal(&answer, 400, "bad_request");
    }
}

#[tokio::test]
async fn a_broken_request_after_a_good_one_does_not_spoil_its_answer() {
    let server = start_with(|_| ()).await;
    let answer = server.exchange(&[GET, b"nonsense\r\n\r\n"].concat()).await;
    let (first, second) = answer.split_once("[1]").unwrap();
    assert!(first.starts_with("HTTP/1.1 200 OK\r\n"));
    is_refusal(second, 400, "bad_request");
}

#[tokio::test]
async fn a_uri_at_its_limit_is_served_and_one_above_is_414() {
    let server = start_with(|limits| limits.requests.uri_bytes_max = 300).await;
    let get = |bytes: usize| {
        format!("GET /?{} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "q".repeat(bytes - 2))
    };
    assert!(server.exchange(get(300).as_bytes()).await.ends_with("[1]"));
    for bytes in [301, 4_000, 60_000, 70_000, 300_000] {
        is_refusal(&server.exchange(get(bytes).as_bytes()).await, 414, "uri_too_long");
    }
}

#[tokio::test]
async fn header_fields_above_their_limit_are_431() {
    let server = start_with(|limits| limits.requests.header_bytes_max = 2_000).await;
    let get = |fields: &str| format!("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n");
    // 100 fields, including `Host` and `Connection`.
    for fields in [format!("a: {}\r\n", "b".repeat(1_900)), "a: b\r\n".repeat(98)] {
        assert!(server.exchange(get(&fields).as_bytes()).await.ends_with("[1]"));
    }
    for fields in [
        format!("a: {}\r\n", "b".repeat(2_000)),
        format!("a: {}\r\n", "b".repeat(200_000)),
        "a: b\r\n".repeat(99),
    ] {
        let answer = server.exchange(get(&fields).as_bytes()).await;
        is_refusal(&answer, 431, "header_fields_too_large");
    }
}

#[tokio::test]
async fn a_uri_that_is_too_long_is_414_in_however_many_pieces_it_arrives() {
    let server = start_with(|limits| limits.requests.uri_bytes_max = 1_000).await;
    for bytes in [30_000, 40_000, 60_000, 100_000] {
        let request = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(bytes));
        is_refusal(&server.exchange(request.as_bytes()).await, 414, "uri_too_long");
    }
}

#[tokio::test]
async fn what_is_refused_to_head_has_no_body() {
    let server = start_with(|_| ()).await;
    let many = "a: b\r\n".repeat(100);
    for (request, status) in [
        (format!("HEAD / HTTP/1.1\r\nHost: x\r\n{many}\r\n"), 431),
        ("\r\nHEAD /<> HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 400),
        ("HEAD / HTTP/1.1\r\n\r\n".to_owned(), 400),
    ] {
        let answer = server.exchange(request.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(answer.ends_with("\r\n\r\n"), "{answer}");
    }
    let both = server.exchange(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGET /<> HTTP/1.1\r\n\r\n").await;
    let refused = both.split_once("\r\n\r\n").unwrap().1;
    is_refusal(refused, 400, "bad_request");
}

#[tokio::test]
async fn a_refused_client_reads_its_answer_though_it_goes_on_sending() {
    let server = start_with(|_| ()).await;
    let mut stream = server.connect().await;
    let mut request = b"nonsense\r\n\r\n".to_vec();
    request.resize(4 * 1024 * 1024, b'x');
    stream.write_all(&request).await.unwrap();
    is_refusal(&rest(&mut stream).await, 400, "bad_request");
}

#[tokio::test]
async fn a_head_that_does_not_arrive_ends_the_connection() {
    let server = start_with(|limits| limits.requests.header_wait_ms_max = 20).await;
    for beginning in [&b""[..], b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n"] {
        assert_eq!(server.exchange(beginning).await, "", "{beginning:?}");
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_the_same_time() {
    let server = start_with(|limits| limits.requests.header_wait_ms_max = 20).await;
    assert!(server.exchange(GET).await.ends_with("[1]"));
}

#[tokio::test]
async fn an_answer_that_nobody_takes_is_given_up() {
    let server = start_with(|limits| limits.answers.answer_wait_ms_max = 20).await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    // The shutdown finishes only after the server has cut off the answer.
    server.shutdown.begin();
    assert_eq!(server.shutdown.finish(Duration::from_secs(60)).await, Ok(()));
    let mut taken = Vec::new();
    let ended = stream.read_to_end(&mut taken).await;
    assert!(ended.is_err() || taken.len() < 64 * 1024 * 1024);
}

/// Reads an answer in `steps` steps of at most 64 KiB, with a pause before each, and then stops. Returns the
/// number of bytes read.
async fn trickle(stream: &mut TcpStream, steps: usize, pause: Duration) -> usize {
    let (mut taken, mut bytes) = (0, vec![0; 64 * 1024]);
    for _ in 0..steps {
        tokio::time::sleep(pause).await;
        match stream.read(&mut bytes).await {
            Ok(0) | Err(_) => break,
            Ok(read) => taken += read,
        }
    }
    taken
}

#[tokio::test]
async fn an_answer_that_is_taken_too_slowly_is_given_up() {
    let server = start_with(|limits| {
        limits.answers.answer_wait_ms_max = 200;
        limits.answers.answer_bytes_per_s_min = 64 << 20;
    })
    .await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    // The client never pauses for long enough to be cut off, and never reads fast enough.
    let taken = trickle(&mut stream, 10_000, Duration::from_millis(5)).await;
    assert!(taken < 64 * 1024 * 1024, "{taken}");
    assert_eq!(server.reached.of(Limit::AnswerRate), 1);
    assert_eq!(server.reached.of(Limit::AnswerWait), 0);
}

#[tokio::test]
async fn whoever_takes_an_answer_steadily_is_served_however_much_room_the_system_has_for_it() {
    let server = start_with(|limits| {
        limits.answers.answer_wait_ms_max = 300;
        limits.answers.answer_bytes_per_s_min = 1_000;
    })
    .await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 * 1024).unwrap();
    let mut stream = socket.connect(server.address).await.unwrap();
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let taken = trickle(&mut stream, 60, Duration::from_millis(20)).await;
    assert!(taken > 0);
    assert_eq!(server.reached.of(Limit::AnswerWait), 0, "after {taken} bytes");
}

#[derive(Clone)]
struct AtTheEnd(mpsc::UnboundedSender<()>);

impl Answers for AtTheEnd {
    fn answer(
        &self,
        _request: Request<Incoming>,
        connection: Arc<ClientConnection>,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send + use<> {
        let ended = self.0.clone();
        async move {
            connection.ended().await;
            ended.send(()).unwrap();
            Ok(Response::new("[3]".into()))
        }
    }
}

#[tokio::test]
async fn whoever_looks_something_up_hears_that_the_client_has_ended_the_connection() {
    let (ends, mut ended) = mpsc::unbounded_channel();
    let (server, address) = local().await;
    let shutdown = Shutdown::new();
    let inside = shutdown.clone();
    shutdown.spawn(async move {
        server.serve(AtTheEnd(ends), &Limits::DEFAULT, &LimitCounters::default(), &inside).await;
    });
    let mut half = TcpStream::connect(address).await.unwrap();
    half.write_all(LAST_GET).await.unwrap();
    half.shutdown().await.unwrap();
    assert!(rest(&mut half).await.ends_with("[3]"), "one that only sends no more is answered");
    ended.recv().await.unwrap();
    let mut gone = TcpStream::connect(address).await.unwrap();
    gone.write_all(GET).await.unwrap();
    drop(gone);
    ended.recv().await.unwrap();
}

#[tokio::test]
async fn one_connection_too_many_is_told_so() {
    let mut server = start_with(|limits| limits.requests.connections_max = 1).await;
    let mut first = server.connect().await;
    first.write_all(b"GET /held HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    server.held.recv().await.unwrap();

    let answer = server.exchange(GET).await;
    is_refusal(&answer, 503, "service_unavailable");
    assert!(answer.contains("retry-after: 1\r\n"), "{answer}");
    assert_eq!(server.reached.of(Limit::Connections), 1);

    server.release.add_permits(1);
    assert!(rest(&mut first).await.ends_with("[2]"));
    drop(first);
    // Its place is free after the task has ended, which a client can only find out by trying.
    while server.exchange(LAST_GET).await.starts_with("HTTP/1.1 503") {}
}

#[tokio::test]
async fn a_shutdown_answers_what_is_under_way_and_closes_the_rest() {
    let mut server = start_with(|_| ()).await;
    let mut fresh = server.connect().await;
    let mut idle = server.connect().await;
    idle.write_all(GET).await.unwrap();
    until(&mut idle, "[1]").await;
    let mut busy = server.connect().await;
    busy.write_all(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    server.held.recv().await.unwrap();

    server.shutdown.begin();
    assert_eq!(rest(&mut fresh).await, "");
    assert_eq!(rest(&mut idle).await, "");
    server.release.add_permits(1);
    assert!(rest(&mut busy).await.ends_with("[2]"));
    assert_eq!(server.shutdown.finish(Duration::from_secs(60)).await, Ok(()));
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn a_request_that_is_on_its_way_on_a_new_connection_is_answered_at_a_shutdown() {
    let server = start_with(|_| ()).await;
    let mut fresh = server.connect().await;
    server.exchange(LAST_GET).await;
    server.shutdown.begin();
    fresh.write_all(LAST_GET).await.unwrap();
    assert!(rest(&mut fresh).await.ends_with("[1]"));
}

#[tokio::test]
async fn what_does_not_finish_within_the_grace_period_is_cut_off() {
    let mut server = start_with(|_| ()).await;
    let mut busy = server.connect().await;
    busy.write_all(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    server.held.recv().await.unwrap();
    let begun = Instant::now();
    assert_eq!(server.shutdown.finish(Duration::from_millis(20)).await.map_err(|error| error.tasks), Err(1));
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(rest(&mut busy).await, "");
}

#[tokio::test]
async fn a_taken_address_is_named() {
    let (_server, address) = local().await;
    let error = Server::bind(&address.into()).await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot listen on {address}, another process does already"));
}

#[tokio::test]
async fn a_socket_is_for_its_owner_and_group_and_takes_the_place_of_a_dead_one() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listen = ListenAddress::Unix(path.clone());
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = Server::bind(&listen).await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    let taken = Server::bind(&listen).await.unwrap_err().to_string();
    assert!(taken.ends_with("another process does already"), "{taken}");
    assert_eq!(server.bound().to_string(), format!("unix:{}", path.display()));
    drop(server);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    std::fs::write(&path, "mine").unwrap();
    Server::bind(&listen).await.unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
}
