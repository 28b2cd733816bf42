//! Connections: TCP, TLS if it is configured, and hyper's HTTP/1.1 on them.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustix::net::sockopt;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::address::Endpoint;
use crate::config::{Config, TlsFiles};
use crate::error::FailureReason;

/// A connection that takes one request at a time.
pub type Connection = SendRequest<Full<Bytes>>;

/// Silence after which the kernel asks whether the other side is still there, and the time between questions. So a
/// watch that nothing comes on notices a host that is gone. Chosen: requests have
/// limits of their own, and a question every 5 s on a silent connection costs nothing.
const KERNEL_ASKS: Duration = Duration::from_secs(5);
/// The number of its questions without an answer after which the connection is broken: 15 s after the last word.
const QUESTIONS: u32 = 2;

/// Connects to a server within the configured time. A task of the runtime serves the connection until it is dropped.
pub async fn connect(config: &Config, endpoint: &Endpoint) -> Result<Connection, FailureReason> {
    let within = config.limits.connect;
    let connected = tokio::time::timeout(within, connect_now(config.tls.as_ref(), endpoint)).await;
    connected.unwrap_or(Err(FailureReason::TimedOut(within)))
}

async fn connect_now(tls: Option<&TlsFiles>, endpoint: &Endpoint) -> Result<Connection, FailureReason> {
    let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await.map_err(FailureReason::Connect)?;
    prepare(&stream).map_err(FailureReason::Connect)?;
    let Some(tls) = tls else { return speak(stream).await };
    let name = ServerName::try_from(endpoint.host.clone());
    let name = name.map_err(|_| FailureReason::TlsName(endpoint.host.clone()))?;
    let stream = TlsConnector::from(tls.read()?).connect(name, stream).await.map_err(FailureReason::Connect)?;
    speak(stream).await
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KERNEL_ASKS)?;
    sockopt::set_tcp_keepintvl(stream, KERNEL_ASKS)?;
    Ok(sockopt::set_tcp_keepcnt(stream, QUESTIONS)?)
}

async fn speak<S>(stream: S) -> Result<Connection, FailureReason>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    TokioIo<S>: Read + Write,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // What ends the connection is an error of the request that is on it.
    tokio::spawn(connection);
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_gives_up_after_two_questions() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            prepare(&stream).unwrap();
            assert!(sockopt::socket_keepalive(&stream).unwrap());
            assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), KERNEL_ASKS);
            assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), KERNEL_ASKS);
            assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), 2);
        });
    }
}
