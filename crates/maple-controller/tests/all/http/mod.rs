//! The HTTP API, asked byte by byte.

mod access;
mod answers;
mod connections;
mod events;
mod history;
mod hostile;
mod lists;
mod map;
mod page;
mod policy;
mod ryu;
mod sessions;
mod time;
mod watch;

use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use maple_controller::ControllerOptions;
use maple_controller::control::{HttpDeadlines, HttpOptions};
use maple_controller::tls::Tls;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{LONG, Maple};

/// Tokens of the three roles, as the file has them.
const TOKENS: &str = "read r the-token-of-readers\nstate s the-token-of-writers\nadmin a the-token-of-admins\n";
const READ: &str = "the-token-of-readers";
const STATE: &str = "the-token-of-writers";
const ADMIN: &str = "the-token-of-admins";

/// A controller with an HTTP API.
struct Served {
    maple: Maple,
    address: SocketAddr,
    /// The folder of the tokens.
    _folder: TempDir,
}

/// A request.
#[derive(Clone, Debug)]
struct Ask<'a> {
    method: &'a str,
    target: &'a str,
    token: &'a str,
    headers: Vec<(&'a str, String)>,
    body: Option<String>,
}

/// An answer.
#[derive(Debug)]
struct Said {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

/// Returns options with the usual time limits.
fn http_options(address: impl Into<SocketAddr>, tls: Option<Arc<Tls>>, tokens: Option<PathBuf>) -> HttpOptions {
    HttpOptions { address: address.into(), tls, tokens, deadlines: HttpDeadlines::default(), ryu: false }
}

/// Writes a file that only this user can read.
fn private_file(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("it is written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
    path
}

impl Served {
    /// Serves on the loopback interface, with tokens unless `tokens` is empty.
    fn new(tokens: &str, change: impl FnOnce(&mut ControllerOptions)) -> Served {
        let folder = tempfile::tempdir().expect("a folder");
        let tokens = (!tokens.is_empty()).then(|| private_file(&folder, "tokens", tokens));
        let maple = Maple::with(|options| {
            options.control.http = Some(http_options(([127, 0, 0, 1], 0), None, tokens));
            change(options);
        });
        let address = maple.handle.operations().http_address().expect("it is served");
        Served { maple, address, _folder: folder }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it accepts");
        stream.set_read_timeout(Some(LONG)).expect("a time limit");
        stream
    }

    /// Sends a request, and reads its answer.
    fn ask(&self, ask: &Ask<'_>) -> Said {
        let mut stream = self.connect();
        stream.write_all(ask.to_text().as_bytes()).expect("it reads");
        Said::read(&mut BufReader::new(stream))
    }

    fn get(&self, target: &str) -> Said {
        self.ask(&Ask::get(target))
    }

    /// Returns the JSON of an answer, which has to be one.
    fn read(&self, target: &str) -> Value {
        let said = self.get(target);
        assert_eq!(said.status, 200, "{target}: {}", said.body);
        said.json()
    }
}

impl<'a> Ask<'a> {
    fn get(target: &'a str) -> Ask<'a> {
        Ask::new("GET", target, ADMIN)
    }

    fn new(method: &'a str, target: &'a str, token: &'a str) -> Ask<'a> {
        Ask { method, target, token, headers: Vec::new(), body: None }
    }

    fn with(mut self, name: &'a str, value: &str) -> Ask<'a> {
        self.headers.push((name, value.to_owned()));
        self
    }

    fn json(mut self, body: &Value) -> Ask<'a> {
        self.body = Some(body.to_string());
        self.with("Content-Type", "application/json")
    }

    fn to_text(&self) -> String {
        let Ask { method, target, .. } = self;
        let has = |name: &str| self.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let mut text = format!("{method} {target} HTTP/1.1\r\nConnection: close\r\n");
        if !has("Host") {
            text += "Host: localhost\r\n";
        }
        if !self.token.is_empty() {
            text += &format!("Authorization: Bearer {}\r\n", self.token);
        }
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        match &self.body {
            Some(body) => text + &format!("Content-Length: {}\r\n\r\n{body}", body.len()),
            None => text + "\r\n",
        }
    }
}

impl Said {
    fn read(from: &mut impl std::io::BufRead) -> Said {
        let (status, headers) = Said::head(from);
        if headers.iter().any(|(_, value)| value == "text/event-stream") {
            // This body does not end.
            return Said { status, headers, body: String::new() };
        }
        let mut body = String::new();
        // The server may have closed before it has read everything.
        let _ = from.read_to_string(&mut body);
        Said { status, headers, body }
    }

    /// Reads a status and headers.
    fn head(from: &mut impl std::io::BufRead) -> (u16, Vec<(String, String)>) {
        let mut line = String::new();
        from.read_line(&mut line).expect("it answers");
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("not a status: {line:?}"));
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            from.read_line(&mut line).expect("it answers");
            let Some((name, value)) = line.trim_end().split_once(": ") else { return (status, headers) };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    /// Returns the status and the field of a refusal.
    fn refusal(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status);
        assert!(problem["detail"].as_str().is_some_and(|text| !text.is_empty()), "{problem}");
        (self.status, problem["field"].as_str().expect("a text").to_owned())
    }
}
