//! Connections: TCP, TLS if it is configured, and hyper's HTTP/1.1 on them.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::address::Endpoint;
use crate::config::{Config, TlsFiles};
use crate::error::FailureReason;

/// A connection that takes one request at a time.
pub type Connection = SendRequest<Full<Bytes>>;

/// Silence after which the kernel asks whether the other side is still there, and the time between questions. So a watch
/// that nothing comes on notices a host that is gone.
const KERNEL_ASKS: Duration = Duration::from_secs(5);

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
    let keepalive = TcpKeepalive::new().with_time(KERNEL_ASKS).with_interval(KERNEL_ASKS);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
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
