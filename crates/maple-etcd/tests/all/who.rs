//! Certificates, users and passwords.

use std::net::Ipv4Addr;

use maple_etcd::{Change, Client, Config, Credentials, EtcdError, Keys, LeaseId, Refusal, TlsFiles, WatchEvent};

use crate::authority::Authority;
use crate::server::{Etcd, is_here, run, until};

#[test]
fn a_server_with_certificates_is_asked_by_who_has_one() {
    if !is_here() {
        return;
    }
    let (authority, stranger) = (Authority::new(), Authority::new());
    let etcd = Etcd::start_with(1, "https", |number, address| authority.arguments(number, address));
    let own = authority.sign("client", Ipv4Addr::LOCALHOST);
    let tls = |authorities, identity| Some(TlsFiles { authorities, identity });
    run(async {
        let good = Config { tls: tls(authority.file(), Some(own.clone())), ..etcd.config(0) };
        let client = Client::new(good.clone());
        until(async || client.get(b"a").await.is_ok()).await;
        let revision = client.put(b"a", b"1", LeaseId::NONE).await.unwrap().revision;
        let mut watch = client.watch(Keys::One(b"a".to_vec()), revision);
        assert!(matches!(watch.next().await.unwrap(), WatchEvent::Changes(_)));

        let error = async |config: Config| match Client::new(config).get(b"a").await.unwrap_err() {
            EtcdError::Unreachable(failures) => failures[0].to_string(),
            error => panic!("{error}"),
        };
        // The server says why, but may close the connection before that has arrived.
        error(Config { tls: tls(authority.file(), None), ..good.clone() }).await;
        let other = stranger.sign("client", Ipv4Addr::LOCALHOST);
        error(Config { tls: tls(authority.file(), Some(other)), ..good.clone() }).await;
        let unknown = error(Config { tls: tls(stranger.file(), Some(own.clone())), ..good.clone() }).await;
        assert!(unknown.contains("invalid peer certificate"), "{unknown}");
        let swapped = error(Config { tls: tls(authority.file(), Some((own.1.clone(), own.0))), ..good.clone() }).await;
        assert!(swapped.contains(&format!("{}: ", own.1.display())), "{swapped}");
        error(Config { tls: None, ..good }).await;
    });
}

#[test]
fn a_user_gets_a_token_and_a_new_one_when_the_server_has_forgotten_it() {
    if !is_here() {
        return;
    }
    let mut etcd = Etcd::start(1);
    run(async {
        etcd.client().await;
        let credentials =
            |user: &str, password: &str| Some(Credentials { user: user.into(), password: password.into() });
        let maple = Config { credentials: credentials("maple", "pw"), ..etcd.config(0) };
        let client = Client::new(maple.clone());
        client.put(b"m/0", b"", LeaseId::NONE).await.expect("as long as etcd asks nobody, a password is not needed");

        etcd.control(&["user", "add", "root:rootpw"]);
        etcd.control(&["user", "grant-role", "root", "root"]);
        etcd.control(&["role", "add", "maple"]);
        etcd.control(&["role", "grant-permission", "maple", "readwrite", "--prefix=true", "m/"]);
        etcd.control(&["user", "add", "maple:pw"]);
        etcd.control(&["user", "grant-role", "maple", "maple"]);
        etcd.control(&["auth", "enable"]);

        let revision = client.put(b"m/a", b"1", LeaseId::NONE).await.expect("the client gets a token now").revision;
        let mut watch = client.watch(Keys::Prefix(b"m/".to_vec()), revision);
        assert!(matches!(watch.next().await.unwrap(), WatchEvent::Changes(_)));
        let refusal = client.get(b"other").await.unwrap_err().refusal();
        assert_eq!(refusal, Some(Refusal::Permission));
        let refusal = client.watch(Keys::One(b"other".to_vec()), 1).next().await.unwrap_err().refusal();
        assert_eq!(refusal, Some(Refusal::Permission));
        for (credentials, wanted) in [
            (credentials("maple", "wrong"), Refusal::Credentials),
            (credentials("nobody", "pw"), Refusal::Credentials),
            (None, Refusal::Credentials),
        ] {
            let stranger = Client::new(Config { credentials, ..etcd.config(0) });
            let error = stranger.get(b"m/a").await.unwrap_err();
            assert_eq!(error.refusal(), Some(wanted), "{error}");
            assert!(!error.to_string().contains("wrong"), "{error}");
        }

        // A server that starts knows no token.
        etcd.servers[0].kill();
        etcd.servers[0].start();
        until(async || client.get(b"m/a").await.is_ok()).await;
        client.put(b"m/a", b"2", LeaseId::NONE).await.unwrap();
        let change = loop {
            match watch.next().await {
                Ok(WatchEvent::Changes(changes)) => break changes,
                Ok(WatchEvent::Progress(_)) => {}
                Ok(WatchEvent::Missed) => panic!("nothing was compacted"),
                Err(error) => assert_eq!(error.refusal(), None, "{error}"),
            }
        };
        assert!(matches!(&change[..], [Change::Put(kv)] if kv.value == b"2"), "{change:?}");

        // A watch that begins with a token that is not known any more.
        let client = Client::new(maple);
        client.get(b"m/a").await.unwrap();
        etcd.servers[0].kill();
        etcd.servers[0].start();
        let mut watch = client.watch(Keys::Prefix(b"m/".to_vec()), revision);
        until(async || match watch.next().await {
            Ok(event) => matches!(event, WatchEvent::Changes(_)),
            Err(error) => {
                assert_eq!(error.refusal(), None, "{error}");
                false
            }
        })
        .await;
    });
}
