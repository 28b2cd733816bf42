//! TLS: which certificates may be which switch, and what becomes of the others.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::common::tls::{Authority, connect, replace, speak, versions};
use crate::common::{LONG, Maple, Peer, eventually, packet_in};
use maple_controller::tls::{Tls, TlsError, TlsFiles, expiry};
use maple_controller::{Deadlines, StartError};
use maple_wire::{Dpid, Version};

/// Starts a controller that listens with TLS.
fn start(files: TlsFiles) -> (Maple, Arc<Tls>) {
    let tls = Arc::new(Tls::open(files).expect("the files are right"));
    (with(&tls, Deadlines::default()), tls)
}

fn with(tls: &Arc<Tls>, deadlines: Deadlines) -> Maple {
    Maple::with(|options| {
        options.openflow.listen_tls = std::mem::take(&mut options.openflow.listen);
        options.openflow.tls = Some(Arc::clone(tls));
        options.openflow.deadlines = deadlines;
    })
}

/// Returns the notice of the end of the connection that was just refused.
fn refusal(maple: &Maple, stream: TcpStream) -> String {
    Peer::begin_on(stream, 1).pump(LONG, |_, _| false);
    let mut reported = Vec::new();
    eventually("it is reported", || {
        reported.extend(maple.notices());
        reported.iter().any(|notice| notice.contains("ended: "))
    });
    reported.retain(|notice| notice.contains("ended: "));
    reported.remove(0)
}

#[test]
fn a_switch_comes_up_and_is_served_in_both_versions() {
    let authority = Authority::new("up");
    let (maple, _) = start(authority.files());
    let own = authority.sign("switch", 2);
    let mut peers = Vec::new();
    for (dpid, version) in (1..).zip(versions()) {
        let mut peer = Peer::begin_on(connect(maple.address, &authority.client(Some(&own), &[version])), dpid);
        peer.finish();
        peer.echo();
        // This is more than a record, both ways.
        let before = maple.count("of_packet_ins");
        (0..200).for_each(|_| peer.send(0, &packet_in(1, vec![7; 1500])));
        eventually("all packets are there", || maple.count("of_packet_ins") == before + 200);
        peer.send(5, &maple_wire::Message::EchoRequest(vec![9; 60_000]));
        assert!(
            peer.pump(LONG, |xid, message| { xid == 5 && *message == maple_wire::Message::EchoReply(vec![9; 60_000]) })
        );
        // This is more than the session takes at a time. All of it comes at once, and nothing follows that would hurry
        // it.
        (0..12).for_each(|_| peer.send(6, &maple_wire::Message::EchoRequest(vec![9; 60_000])));
        let mut replies = 0;
        assert!(peer.pump(LONG, |xid, _| {
            replies += usize::from(xid == 6);
            replies == 12
        }));
        peers.push(peer);
        assert_eq!(maple.connected().len(), peers.len());
    }
}

#[test]
fn those_who_may_not_are_refused_with_a_reason() {
    let (authority, other) = (Authority::new("told"), Authority::new("other"));
    let revoked = authority.sign("gone", 4);
    let files = || {
        let mut files = authority.files();
        files.revoked = vec![authority.revoke(&[&revoked])];
        files
    };
    let own = authority.sign("own", 2);
    let client = |own| authority.client(own, &versions());
    let refusal_of = |stream: &dyn Fn(&Maple) -> TcpStream| {
        let (maple, _) = start(files());
        let stream = stream(&maple);
        refusal(&maple, stream)
    };
    let says = |notice: String, what: &str| assert!(notice.contains(what), "{notice}");
    says(refusal_of(&|maple| connect(maple.address, &client(None))), "TLS: the switch showed no certificate");
    let alien = other.sign("alien", 2);
    says(refusal_of(&|maple| connect(maple.address, &client(Some(&alien)))), "TLS: no known authority has signed");
    let old = authority.sign_until("old", 3, 2020);
    says(refusal_of(&|maple| connect(maple.address, &client(Some(&old)))), "TLS: its certificate has expired");
    says(refusal_of(&|maple| connect(maple.address, &client(Some(&revoked)))), "TLS: its certificate was revoked");
    // This switch knows another authority.
    let stranger = other.client(Some(&own), &versions());
    says(refusal_of(&|maple| connect(maple.address, &stranger)), "knows no authority that signed the controller's");
    // One switch speaks no TLS, and one speaks it on a port without.
    says(
        refusal_of(&|maple| TcpStream::connect(maple.address).expect("it accepts")),
        "TLS: the switch does not speak TLS",
    );
    let plain = Maple::start();
    let notice = refusal(&plain, connect(plain.address, &client(Some(&own))));
    says(notice, "speaks TLS, and this port has none");
}

#[test]
fn a_certificate_may_only_be_its_switches() {
    let authority = Authority::new("bound");
    let mut files = authority.files();
    let switches = authority.folder.path().join("switches");
    fs::write(&switches, "1,a-b name:first.example\n2 subject:CN = second\n").expect("it is written");
    files.switches = Some(switches);
    let (maple, _) = start(files);
    let first = authority.client(Some(&authority.sign("first", 2)), &versions());
    let second = authority.client(Some(&authority.sign("second", 3)), &versions());
    let mut peers: Vec<Peer> =
        [1, 10, 11].map(|dpid| Peer::begin_on(connect(maple.address, &first), dpid)).into_iter().collect();
    peers.iter_mut().for_each(Peer::finish);
    Peer::begin_on(connect(maple.address, &second), 2).finish();
    maple.notices();
    let notice = refusal(&maple, connect(maple.address, &second));
    assert!(notice.contains("datapath id 0000000000000001 belongs to another certificate than"), "{notice}");
    Peer::begin_on(connect(maple.address, &second), 3).pump(LONG, |_, _| false);
    assert_eq!((maple.count("of_wrong_certificates"), maple.connected().len()), (2, 3));
}

#[test]
fn the_first_certificate_of_a_switch_is_kept_over_restarts() {
    let authority = Authority::new("first");
    let mut files = authority.files();
    (files.switches, files.trusts_first_use) = (Some(authority.folder.path().join("switches")), true);
    let first = authority.client(Some(&authority.sign("first", 2)), &versions());
    let second = authority.client(Some(&authority.sign("second", 3)), &versions());
    for _ in 0..2 {
        let (maple, _) = start(files.clone());
        Peer::begin_on(connect(maple.address, &first), 1).finish();
        Peer::begin_on(connect(maple.address, &second), 1).pump(LONG, |_, _| false);
        assert_eq!(maple.count("of_wrong_certificates"), 1);
    }
}

#[test]
fn files_are_read_again_without_an_end_of_sessions() {
    let (authority, other) = (Authority::new("again"), Authority::new("later"));
    let files = authority.files();
    let (maple, tls) = start(files.clone());
    let own = authority.client(Some(&authority.sign("own", 2)), &versions());
    let mut peer = Peer::begin_on(connect(maple.address, &own), 1);
    peer.finish();
    assert!(!tls.reload_if_changed().expect("they are right"));
    // A file that is wrong changes nothing, and is reported once.
    let good = fs::read(&files.certificate).expect("it is there");
    fs::write(&files.certificate, "nonsense").expect("it is written");
    assert!(matches!(tls.reload_if_changed(), Err(TlsError::Content(path, _)) if path == files.certificate));
    assert!(!tls.reload_if_changed().expect("it was reported"));
    let mut second = Peer::begin_on(connect(maple.address, &own), 2);
    second.finish();
    // There are other authorities: new sessions need a certificate of those.
    fs::write(&files.certificate, good).expect("it is written");
    replace(&authority.file(), &other.file());
    assert!(tls.reload_if_changed().expect("they are right"));
    peer.echo();
    let mut refused = Peer::begin_on(connect(maple.address, &own), 3);
    assert!(refused.is_closed(), "also if it resumes");
    assert_eq!(maple.connected().len(), 2);
}

#[test]
fn half_a_handshake_has_the_time_of_a_handshake() {
    let authority = Authority::new("half");
    let quick = Duration::from_secs(2);
    let maple = with(&authority.tls(), Deadlines { handshake: quick, ..Deadlines::default() });
    let own = authority.client(Some(&authority.sign("own", 2)), &versions());
    let mut silent: Vec<TcpStream> = (0..50)
        .map(|n| {
            let mut stream = TcpStream::connect(maple.address).expect("it accepts");
            // The header of a record, and some of it.
            stream.write_all(&[0x16, 3, 1, 1, 0, 1, 0, 0][..n % 9]).expect("it is open");
            stream
        })
        .collect();
    Peer::begin_on(connect(maple.address, &own), 1).finish();
    for stream in &mut silent {
        stream.set_read_timeout(Some(LONG)).expect("it is open");
        stream.read_to_end(&mut Vec::new()).expect("it ends");
    }
}

#[test]
fn two_hundred_handshakes_leave_others_their_share() {
    let authority = Authority::new("storm");
    // The test serves its switches one after the other.
    let maple = with(&authority.tls(), Deadlines { handshake: LONG * 6, ..Deadlines::default() });
    let own = authority.client(Some(&authority.sign("own", 2)), &versions());
    let mut bystander = Peer::begin_on(connect(maple.address, &own), 1);
    bystander.finish();
    let storm: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(maple.address).expect("it accepts")).collect();
    let storm: Vec<TcpStream> = storm.into_iter().map(|stream| speak(stream, &own)).collect();
    (0..20).for_each(|_| bystander.echo());
    let peers: Vec<Peer> = storm.into_iter().zip(2..).map(|(stream, dpid)| Peer::begin_on(stream, dpid)).collect();
    peers.into_iter().for_each(|mut peer| peer.finish());
}

#[test]
fn the_end_of_a_session_is_the_end_of_its_switch() {
    let authority = Authority::new("end");
    let patient = Deadlines { idle: LONG * 9, echo: LONG * 9, ..Deadlines::default() };
    let maple = with(&authority.tls(), patient);
    let own = authority.sign("own", 2);
    let mut bystander = Peer::begin_on(connect(maple.address, &authority.client(Some(&own), &versions())), 1);
    bystander.finish();
    for version in versions() {
        let config = authority.client(Some(&own), &[version]);
        let mut gone = Peer::begin_on(connect(maple.address, &config), 2);
        gone.finish();
        drop(gone);
        eventually("it is gone", || maple.connected().len() == 1);
        // This switch ends its session, and sends something after that.
        let mut tcp = TcpStream::connect(maple.address).expect("it accepts");
        let name = rustls::pki_types::ServerName::try_from("controller.example").expect("a name");
        let mut session = rustls::ClientConnection::new(config, name).expect("a session");
        while session.is_handshaking() {
            session.complete_io(&mut tcp).expect("it is served");
        }
        session.send_close_notify();
        while session.wants_write() {
            session.write_tls(&mut tcp).expect("it is open");
        }
        drop(tcp.write_all(&[0x17; 10_000]));
        bystander.echo();
        eventually("it is closed", || maple.handle.stats().unwrap().connections == 1);
    }
}

#[test]
fn a_bound_switch_is_none_without_tls() {
    let authority = Authority::new("plain");
    let mut files = authority.files();
    files.declared = vec![(Dpid(1), "name:own.example".to_owned())];
    let tls = Arc::new(Tls::open(files).expect("the files are right"));
    let maple = Maple::with(|options| {
        options.openflow.listen_tls = options.openflow.listen.clone();
        options.openflow.tls = Some(tls);
    });
    Peer::begin(maple.address, Version::Of13, 1).pump(LONG, |_, _| false);
    assert_eq!(maple.count("of_wrong_certificates"), 1);
    Peer::up(&maple, Version::Of13, 2);
    let own = authority.client(Some(&authority.sign("own", 2)), &versions());
    Peer::begin_on(connect(maple.handle.addresses()[1], &own), 1).finish();
}

#[test]
fn wrong_files_are_named() {
    let (authority, other) = (Authority::new("files"), Authority::new("keys"));
    let right = authority.files();
    let error = |change: &dyn Fn(&mut TlsFiles)| {
        let mut files = right.clone();
        change(&mut files);
        Tls::open(files).expect_err("it is wrong").to_string()
    };
    let key = fs::read_to_string(&right.key).expect("it is there");
    let says = |text: String, what: &str| {
        assert!(text.contains(what), "{text}");
        assert!(key.lines().all(|line| !text.contains(line)), "no key is reported");
    };
    says(error(&|files| files.certificate = "/nowhere".into()), "can't read /nowhere: ");
    says(error(&|files| files.certificate = right.key.clone()), "there is no PEM certificate in it");
    says(error(&|files| files.key = right.certificate.clone()), "there is no PEM private key in it");
    let line = authority.folder.path().join("line.key");
    for text in [key.replace('\n', ""), key.replace('\n', "\\n"), key.replace("-----END", "-----XXX")] {
        fs::write(&line, &text).expect("it is written");
        let reported = error(&|files| files.key = line.clone());
        let bytes: Vec<String> = text.bytes().skip(40).take(8).map(|byte| byte.to_string()).collect();
        assert!(!reported.contains(&bytes.join(", ")), "{reported}");
        says(reported, "line.key: ");
    }
    says(error(&|files| files.key = other.files().key), "does not belong to the certificate in");
    says(error(&|files| files.authorities = Some(right.key.clone())), "there is no PEM certificate in it");
    says(error(&|files| files.revoked = vec![right.certificate.clone()]), "there is no PEM revocation list in it");
    says(error(&|files| files.switches = Some("/nowhere/switches".into())), "can't read /nowhere/switches: ");
    says(error(&|files| files.trusts_first_use = true), "needs a file of switches");
    says(
        error(&|files| (files.authorities, files.switches) = (None, Some("/nowhere".into()))),
        "a file of switches needs the authorities",
    );
    let certificate = right.certificate.clone();
    let tls = Tls::open(right).expect("they are right");
    assert!(tls.expires() > SystemTime::now());
    assert_eq!(expiry(&certificate).expect("it is a certificate"), tls.expires());
    let mut options =
        maple_controller::ControllerOptions::new(Arc::new(|_: &maple_core::PacketHandle, _: &maple_core::Net| {
            maple_core::Route::flood()
        }));
    options.openflow.listen_tls = vec![([127, 0, 0, 1], 0).into()];
    options.openflow.listen.clear();
    assert!(matches!(maple_controller::Controller::start(options).err(), Some(StartError::NoCertificate(_))));
}

#[test]
fn without_authorities_anyone_may_be_any_switch() {
    let authority = Authority::new("anyone");
    let (maple, _) = start(TlsFiles { authorities: None, ..authority.files() });
    let mut peer = Peer::begin_on(connect(maple.address, &authority.client(None, &versions())), 1);
    peer.finish();
    assert_eq!((peer.dpid, peer.version), (Dpid(1), Version::Of13));
}

#[test]
fn files_that_could_not_be_read_are_tried_again_without_a_controller_too() {
    let authority = Authority::new("again");
    let files = authority.files();
    let certificate = files.certificate.clone();
    let tls = Tls::open(files).expect("they are right");
    let right = fs::read(&certificate).expect("it is there");
    fs::write(&certificate, "wrong").expect("it is written");
    tls.reload_if_changed().expect_err("it is wrong");
    assert!(!tls.reload_if_changed().expect("it was reported"));
    let written = fs::metadata(&certificate).and_then(|found| found.modified()).expect("it is there");
    fs::write(&certificate, right).expect("it is written");
    let file = fs::File::options().write(true).open(&certificate).expect("it is there");
    file.set_modified(written).expect("it is ours");
    assert!(tls.reload_if_changed().expect("it is right"), "though the file has the time that it had");
    assert!(!tls.reload_if_changed().expect("nothing has changed"));
}

#[test]
fn certificates_that_are_deleted_are_reported_until_they_are_back() {
    let authority = Authority::new("deleted");
    let files = authority.files();
    let certificate = files.certificate.clone();
    let (maple, tls) = start(files);
    let errors = || maple.handle.errors().into_iter().map(|error| error.text).collect::<Vec<_>>();
    let aside = certificate.with_extension("aside");
    fs::rename(&certificate, &aside).expect("it is there");
    tls.reload_if_changed().expect_err("it is missing");
    assert!(!tls.reload_if_changed().expect("it is told once"), "and tried again");
    let reported = errors();
    assert!(
        reported.len() == 1 && reported[0].ends_with("TLS goes on with the certificates as they were"),
        "{reported:?}"
    );
    // The file has the time that it had.
    fs::rename(&aside, &certificate).expect("it is there");
    assert!(tls.reload_if_changed().expect("it is right"));
    let reported = errors();
    assert!(reported.len() == 2 && reported[1].contains("in order again"), "{reported:?}");
    assert!(!tls.reload_if_changed().expect("nothing has changed"));
}
