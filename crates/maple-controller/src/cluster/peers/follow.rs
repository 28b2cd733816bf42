//! The standby's side: follows the master, wherever that is.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use maple_cluster::StreamError;
use maple_etcd::{Endpoint, FailureReason, TlsFiles};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{error::Elapsed, timeout};
use tokio_rustls::TlsConnector;

use super::frames::{Greeting, MAX_ANSWER, PeerAnswer, format, receive, send};
use super::{MasterPlace, Peers};

/// The time until a connection, with TLS, is there, and until a question is written. Chosen: members of a cluster are
/// near each other, where this takes milliseconds, and a standby should soon report that its master is away.
const CONNECT: Duration = Duration::from_secs(2);
/// The time for which the master may say nothing. It must exceed its heartbeat several times.
const SILENCE: Duration = Duration::from_secs(5);
/// The time until the next attempt to connect. Chosen: a master that has just been elected answers a moment later.
const RETRY: Duration = Duration::from_millis(200);

/// The reason why nothing comes from the master.
#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error("it says no address for other controllers: it was started without --cluster-listen")]
    NoAddress,
    #[error("{0}: {1}")]
    Connection(Endpoint, io::Error),
    #[error("{0}: it does not answer in time")]
    Late(Endpoint),
    #[error("{0} is on another machine, and this controller has no certificates for others")]
    NeedsTls(Endpoint),
    #[error(transparent)]
    Files(#[from] FailureReason),
    #[error("what it sends can't be used: {0}")]
    Stream(#[from] StreamError),
    #[error("{0}")]
    Refused(String),
    /// The member is not master, or not yet: nothing is wrong.
    #[error("it is not master yet")]
    NotMaster,
}

/// Follows the master, and each later one.
pub(super) async fn follow(peers: Arc<Peers>, tls: Option<TlsFiles>) {
    let mut masters = peers.master.subscribe();
    loop {
        let master = masters.borrow_and_update().clone();
        let task = master.map(|master| tokio::spawn(follow_one(Arc::clone(&peers), tls.clone(), master)));
        let is_over = masters.changed().await.is_err();
        if let Some(task) = task {
            task.abort();
        }
        if is_over {
            return;
        }
    }
}

/// Follows one master, for ever. If the connection ends, and nobody listens there any more, the master is dead.
async fn follow_one(peers: Arc<Peers>, tls: Option<TlsFiles>, master: MasterPlace) {
    loop {
        let mut was_heard = false;
        let Err(error) = converse(&peers, tls.as_ref(), &master, &mut was_heard).await;
        // One that was never heard may be behind a firewall, which refuses connections too.
        if let FollowError::Connection(at, _) = &error
            && was_heard
            && is_refused(at).await
        {
            peers.suspect(&master.name).await;
        }
        if !matches!(error, FollowError::NotMaster) {
            peers.on_trouble(&master.name, error.to_string());
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Reports whether the kernel of a host says that nobody listens at an address.
async fn is_refused(at: &Endpoint) -> bool {
    let connected = timeout(CONNECT, TcpStream::connect((at.host.as_str(), at.port))).await;
    matches!(connected, Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Connects, and asks until the connection ends. `was_heard` becomes true when the master has answered.
async fn converse(
    peers: &Peers,
    tls: Option<&TlsFiles>,
    master: &MasterPlace,
    was_heard: &mut bool,
) -> Result<std::convert::Infallible, FollowError> {
    let Some(at) = &master.address else { return Err(FollowError::NoAddress) };
    let failed = |error| FollowError::Connection(at.clone(), error);
    let late = |_: Elapsed| FollowError::Late(at.clone());
    let connected = timeout(CONNECT, TcpStream::connect((at.host.as_str(), at.port))).await;
    let stream = connected.map_err(late)?.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let Some(tls) = tls else {
        if !stream.peer_addr().map_err(failed)?.ip().is_loopback() {
            return Err(FollowError::NeedsTls(at.clone()));
        }
        return ask(stream, peers, (&master.name, at), was_heard).await;
    };
    let name = ServerName::try_from(at.host.clone()).map_err(|error| failed(io::Error::other(error)))?;
    let secured = timeout(CONNECT, TlsConnector::from(tls.read()?).connect(name, stream)).await;
    ask(secured.map_err(late)?.map_err(failed)?, peers, (&master.name, at), was_heard).await
}

async fn ask(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    peers: &Peers,
    (master, at): (&str, &Endpoint),
    was_heard: &mut bool,
) -> Result<std::convert::Infallible, FollowError> {
    let failed = |error| FollowError::Connection(at.clone(), error);
    let late = |_: Elapsed| FollowError::Late(at.clone());
    let greeting = Greeting { cluster: peers.cluster.clone(), name: peers.name.clone(), format: format() };
    timeout(CONNECT, send(&mut stream, &greeting)).await.map_err(late)?.map_err(failed)?;
    loop {
        let question = peers.copy().follower.ask();
        timeout(CONNECT, send(&mut stream, &question)).await.map_err(late)?.map_err(failed)?;
        match timeout(SILENCE, receive(&mut stream, MAX_ANSWER)).await.map_err(late)?.map_err(failed)? {
            PeerAnswer::Part(part) => {
                peers.on_part(master, part)?;
                *was_heard = true;
            }
            PeerAnswer::NotMaster => return Err(FollowError::NotMaster),
            PeerAnswer::Refused(why) => return Err(FollowError::Refused(why)),
        }
    }
}
