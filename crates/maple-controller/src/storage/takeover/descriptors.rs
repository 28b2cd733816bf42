//! Open sockets on their way between two processes (`SCM_RIGHTS`): one byte for each [`BATCH`] descriptors, with them.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use super::invalid;

/// The maximum number of descriptors that go with a byte. It must be at most 253, which Linux allows (`SCM_MAX_FD`).
const BATCH: usize = 64;

/// Sends these descriptors.
pub(super) fn send(stream: &UnixStream, sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    for batch in sockets.chunks(BATCH) {
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(batch)) {
            return Err(invalid("too many descriptors"));
        }
        sendmsg(stream, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::empty())?;
    }
    Ok(())
}

/// Receives this many descriptors.
pub(super) fn receive(stream: &UnixStream, count: usize) -> io::Result<Vec<OwnedFd>> {
    let mut sockets = Vec::new();
    while sockets.len() < count {
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let received = recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        if received.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let before = sockets.len();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                sockets.extend(rights);
            }
        }
        if sockets.len() == before {
            return Err(invalid("fewer sockets than were announced"));
        }
    }
    if sockets.len() > count { Err(invalid("more sockets than were announced")) } else { Ok(sockets) }
}
