//! The master's side: answers the questions of standbys.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use super::Peers;
use super::frames::{Greeting, MAX_GREETING, MAX_QUESTION, PeerAnswer, Question, format, receive, send};
use crate::tls::Tls;

/// The time after which a question is answered though there is nothing new. Standbys know by that who is there. It must
/// be a small part of the time for which a standby waits for an answer (5 s).
pub(super) const HEARTBEAT: Duration = Duration::from_secs(1);
/// The time that a standby may take for TLS and its greeting, and to read an answer. Chosen: a network takes much less.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time for which a standby may ask nothing. It asks as soon as it has an answer. Chosen: a standby that is busy
/// with a large answer keeps its connection, and one that is gone has it only for a while.
const SILENCE: Duration = Duration::from_secs(30);
/// The maximum number of connections. Chosen: more than a cluster has members, so that those that have ended and are
/// not noticed yet keep nobody out.
const MAX_CONNECTIONS: usize = 64;
/// The maximum number of connections that wait to be accepted.
pub(super) const BACKLOG: i32 = 64;
/// The time for which accepting pauses after an error, for example when the system is out of descriptors. Chosen: an
/// error that lasts costs no processor time and few lines of the log, and a standby waits hardly longer.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections for ever.
pub(super) async fn accept(listener: TcpListener, tls: Option<Arc<Tls>>, peers: Arc<Peers>) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "can't accept another controller");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else { continue };
        if let Some(Err(error)) = tls.as_ref().map(|tls| tls.reload_if_changed()) {
            tracing::warn!(%error, "controllers are served with the certificate as it was");
        }
        let (tls, peers) = (tls.clone(), Arc::clone(&peers));
        tokio::spawn(async move {
            if let Err(error) = serve(stream, tls, &peers).await {
                tracing::debug!(%error, "a connection of another controller has ended");
            }
            drop(permit);
        });
    }
}

async fn serve(stream: TcpStream, tls: Option<Arc<Tls>>, peers: &Peers) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match tls {
        Some(tls) => converse(timeout(PATIENCE, TlsAcceptor::from(tls.config()).accept(stream)).await??, peers).await,
        None => converse(stream, peers).await,
    }
}

/// Answers questions until the connection ends.
async fn converse(mut stream: impl AsyncRead + AsyncWrite + Unpin, peers: &Peers) -> io::Result<()> {
    let greeting: Greeting = timeout(PATIENCE, receive(&mut stream, MAX_GREETING)).await??;
    let refusal = refusal(&greeting, peers);
    loop {
        let question: Question = timeout(SILENCE, receive(&mut stream, MAX_QUESTION)).await??;
        if let Some(why) = refusal {
            // Only now, since what was not read would end the connection before this is.
            return timeout(PATIENCE, send(&mut stream, &PeerAnswer::Refused(why))).await?;
        }
        let answer = answer(&question, peers).await;
        timeout(PATIENCE, send(&mut stream, &answer)).await??;
    }
}

/// Returns why a standby gets nothing.
fn refusal(greeting: &Greeting, peers: &Peers) -> Option<String> {
    let Greeting { cluster, name, format: theirs } = greeting;
    let (own, ours) = (&peers.name, format());
    if *cluster != peers.cluster {
        return Some(format!("{own} is of the cluster {}, not of {cluster}", peers.cluster));
    }
    if *theirs != ours {
        return Some(format!("{name} has another version of Maple than {own}: the format is {theirs}, not {ours}"));
    }
    None
}

/// Waits until there is something new, or for a moment.
async fn answer(question: &Question, peers: &Peers) -> PeerAnswer {
    let end = Instant::now() + HEARTBEAT;
    let mut changes = peers.changes.subscribe();
    loop {
        changes.mark_unchanged();
        let Some(generation) = peers.generation() else { return PeerAnswer::NotMaster };
        {
            let source = peers.rows.source();
            if source.has_news(question) || Instant::now() >= end {
                return PeerAnswer::Part(source.answer(question, generation));
            }
        }
        // The sender lives as long as this; without news, it is time to say so.
        let _ = timeout_at(end, changes.changed()).await;
    }
}
