//! Readers of events that read nothing cost little memory.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use maple_controller::control::{HttpDeadlines, HttpOptions};
use socket2::{Domain, Socket, Type};

use crate::common::{LONG, Maple, descriptors};
use crate::{alone, held_bytes};

/// The number of readers, as many as there may be.
const READERS: u64 = 256;
/// The number of events, many more than are kept.
const EVENTS: usize = 10_000;
/// The maximum of memory that all of them may take, in bytes: what waits in a connection until the system takes it.
/// Each event for each of them would be 500 MB.
const MOST_OF_READERS: usize = 100 << 20;
const TOKEN: &str = "the-token-of-admins";

/// Asks for events, and reads only that they come. The system takes few bytes for it, too.
fn silent(address: SocketAddr) -> BufReader<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("it is small");
    socket.connect(&address.into()).expect("it accepts");
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(LONG)).expect("a time limit");
    let head = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n";
    stream.write_all(format!("{head}Authorization: Bearer {TOKEN}\r\n\r\n").as_bytes()).expect("it reads");
    let mut reader = BufReader::with_capacity(16, stream);
    let mut line = String::new();
    reader.read_line(&mut line).expect("it answers");
    assert_eq!(line, "HTTP/1.1 200 OK\r\n");
    reader
}

/// Makes this many lines of the log: clients that may change something leave one with each attempt.
fn make_events(address: SocketAddr, count: usize) {
    let mut stream = TcpStream::connect(address).expect("it accepts");
    stream.set_read_timeout(Some(LONG)).expect("a time limit");
    let mut reader = BufReader::new(stream.try_clone().expect("a copy"));
    let head = "DELETE /v1/state/variables/none?wrong=1 HTTP/1.1\r\nHost: localhost\r\n";
    let request = format!("{head}Authorization: Bearer {TOKEN}\r\n\r\n");
    for _ in 0..count {
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("it answers");
            if let Some((name, value)) = line.split_once(": ")
                && name == "content-length"
            {
                length = value.trim().parse().expect("a number");
            }
            if line == "\r\n" {
                break;
            }
        }
        reader.read_exact(&mut vec![0; length]).expect("the rest comes");
    }
}

#[test]
fn as_many_readers_as_there_may_be_read_nothing_and_memory_is_bounded() {
    let _alone = alone();
    // Each connection has both of its ends in this process.
    if !descriptors(2 * READERS) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let tokens = folder.path().join("tokens");
    std::fs::write(&tokens, format!("admin a {TOKEN}\n")).expect("it is written");
    std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
    let hour = Duration::from_secs(3600);
    let maple = Maple::with(|options| {
        options.control.http = Some(HttpOptions {
            address: ([127, 0, 0, 1], 0).into(),
            tls: None,
            tokens: Some(tokens),
            // Nobody is cut off meanwhile.
            deadlines: HttpDeadlines { stall: hour, ..HttpDeadlines::default() },
            ryu: false,
        });
    });
    let address = maple.handle.operations().http_address().expect("it is served");
    let readers: Vec<BufReader<TcpStream>> = (0..READERS).map(|_| silent(address)).collect();
    let before = held_bytes();
    make_events(address, EVENTS);
    let grown = held_bytes().saturating_sub(before);
    assert!(grown < MOST_OF_READERS, "{grown} bytes more after {EVENTS} events");
    let whole = maple.handle.operations().log_since(0, Duration::ZERO).last().map(|line| line.number);
    assert!(whole >= Some(EVENTS as u64 - 1), "each was an event: {whole:?}");
    drop(readers);
}
