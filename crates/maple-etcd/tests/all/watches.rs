//! Watches of one server, also when it goes away and comes back.

use std::time::Duration;

use maple_etcd::{Change, Client, Config, EtcdError, Keys, LeaseId, Limits, Watch, WatchEvent};

use crate::server::{Etcd, is_here, run, until};

/// Returns the next changes as text: `key=value` or `key gone`.
async fn changes(watch: &mut Watch) -> Vec<String> {
    loop {
        match watch.next().await {
            Ok(WatchEvent::Changes(changes)) => return changes.iter().map(text).collect(),
            Ok(WatchEvent::Progress(_)) => {}
            Ok(WatchEvent::Missed) => panic!("it was not missed"),
            Err(EtcdError::Unreachable(_) | EtcdError::WatchEnded(_)) => {
                tokio::time::sleep(Duration::from_millis(50)).await
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn text(change: &Change) -> String {
    match change {
        Change::Put(kv) => format!("{}={}", String::from_utf8_lossy(&kv.key), String::from_utf8_lossy(&kv.value)),
        Change::Delete { key, .. } => format!("{} gone", String::from_utf8_lossy(key)),
    }
}

/// Returns the next `count` changes, and those that came with them.
async fn next(watch: &mut Watch, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(changes(watch).await);
    }
    all
}

#[test]
fn a_watch_tells_every_change_in_order() {
    if !is_here() {
        return;
    }
    let etcd = Etcd::start(1);
    run(async {
        let client = etcd.client().await;
        let from = client.put(b"w/a", b"1", LeaseId::NONE).await.unwrap().revision;
        client.put(b"other", b"", LeaseId::NONE).await.unwrap();
        client.put(b"w/a", b"2", LeaseId::NONE).await.unwrap();
        let mut watch = client.watch(Keys::Prefix(b"w/".to_vec()), from);
        assert_eq!(next(&mut watch, 2).await, ["w/a=1", "w/a=2"]);
        client.put(b"w/b", b"", LeaseId::NONE).await.unwrap();
        assert_eq!(next(&mut watch, 1).await, ["w/b="]);
        client.delete(&Keys::Prefix(b"w/".to_vec())).await.unwrap();
        assert_eq!(changes(&mut watch).await, ["w/a gone", "w/b gone"], "what happened at once comes at once");
        assert_eq!(watch.next_revision(), from + 5);
    });
}

#[test]
fn a_watch_goes_on_where_it_was_when_the_server_was_away() {
    if !is_here() {
        return;
    }
    let mut etcd = Etcd::start(1);
    run(async {
        let client = etcd.client().await;
        let other = Client::new(etcd.config(0));
        let from = client.put(b"a", b"0", LeaseId::NONE).await.unwrap().revision;
        let mut watch = client.watch(Keys::One(b"a".to_vec()), from);
        assert_eq!(next(&mut watch, 1).await, ["a=0"]);
        for round in 1..4 {
            etcd.servers[0].kill();
            let error = watch.next().await.unwrap_err();
            assert!(matches!(error, EtcdError::WatchEnded(_)), "{error}");
            assert!(matches!(watch.next().await.unwrap_err(), EtcdError::Unreachable(_)));
            etcd.servers[0].start();
            until(async || other.get(b"a").await.is_ok()).await;
            let value = round.to_string();
            other.put(b"a", value.as_bytes(), LeaseId::NONE).await.unwrap();
            other.put(b"a", b"then", LeaseId::NONE).await.unwrap();
            assert_eq!(next(&mut watch, 2).await, [format!("a={round}"), "a=then".into()]);
        }
    });
}

#[test]
fn a_watch_says_that_it_missed_what_was_compacted() {
    if !is_here() {
        return;
    }
    let etcd = Etcd::start(1);
    run(async {
        let client = etcd.client().await;
        let from = client.put(b"a", b"1", LeaseId::NONE).await.unwrap().revision;
        let deleted = client.delete(&Keys::One(b"a".to_vec())).await.unwrap().revision;
        let last = client.put(b"a", b"2", LeaseId::NONE).await.unwrap().revision;
        etcd.control(&["compact", &deleted.to_string()]);
        // From the deletion on 3.4 would report only what came after it.
        for from in [from, deleted] {
            let mut watch = client.watch(Keys::One(b"a".to_vec()), from);
            for _ in 0..2 {
                assert_eq!(watch.next().await.unwrap(), WatchEvent::Missed, "also when it is asked again");
            }
        }
        let mut watch = client.watch(Keys::One(b"a".to_vec()), last);
        assert_eq!(next(&mut watch, 1).await, ["a=2"]);
    });
}

#[test]
fn a_watch_says_that_it_missed_what_is_longer_than_its_limit() {
    if !is_here() {
        return;
    }
    let etcd = Etcd::start(1);
    run(async {
        let client = etcd.client().await;
        let from = client.put(b"a", &[b'x'; 50_000], LeaseId::NONE).await.unwrap().revision;
        let limits = Limits { answer: 10_000, ..Limits::default() };
        let small = Client::new(Config { limits, ..etcd.config(0) });
        let mut watch = small.watch(Keys::One(b"a".to_vec()), from);
        assert_eq!(watch.next().await.unwrap(), WatchEvent::Missed);
        let error = small.get(b"a").await.unwrap_err().to_string();
        assert!(error.ends_with("its answer is longer than 10000 bytes"), "{error}");
    });
}

#[test]
fn a_watch_of_a_store_that_is_older_than_it_says_so() {
    if !is_here() {
        return;
    }
    let etcd = Etcd::start(1);
    run(async {
        let client = etcd.client().await;
        let now = client.put(b"a", b"1", LeaseId::NONE).await.unwrap().revision;
        let mut watch = client.watch(Keys::One(b"a".to_vec()), now + 1_000);
        assert_eq!(watch.next().await.unwrap(), WatchEvent::Missed);
        let limits = Limits { silence: Duration::from_millis(100), ..etcd.config(0).limits };
        let client = Client::new(Config { limits, ..etcd.config(0) });
        // One that is up to date stays silent, however often the server is asked.
        let mut watch = client.watch(Keys::One(b"a".to_vec()), now + 1);
        tokio::time::timeout(Duration::from_secs(1), watch.next()).await.unwrap_err();
        client.put(b"a", b"2", LeaseId::NONE).await.unwrap();
        assert_eq!(next(&mut watch, 1).await, ["a=2"]);
    });
}

#[test]
fn a_watch_notices_that_its_server_is_paused() {
    if !is_here() {
        return;
    }
    let etcd = Etcd::start(1);
    run(async {
        let client = etcd.client().await;
        let now = client.put(b"a", b"1", LeaseId::NONE).await.unwrap().revision;
        let second = Duration::from_secs(1);
        let limits = Limits { silence: second, request: 5 * second, ..Limits::default() };
        let mut watch = Client::new(Config { limits, ..etcd.config(0) }).watch(Keys::One(b"a".to_vec()), now);
        assert_eq!(next(&mut watch, 1).await, ["a=1"]);
        etcd.servers[0].pause();
        let error = watch.next().await.unwrap_err().to_string();
        etcd.servers[0].wake();
        assert!(error.ends_with("no answer within 5s"), "{error}");
        client.put(b"a", b"2", LeaseId::NONE).await.unwrap();
        assert_eq!(next(&mut watch, 1).await, ["a=2"]);
    });
}
