//! Keys, transactions and leases of one server.

use maple_etcd::{Client, Compare, Config, Keys, LeaseId, Limits, Operation, OperationAnswer, Refusal, Transaction};

use crate::server::{Etcd, is_here, run, until};

fn put(key: &[u8], value: &[u8]) -> Operation {
    Operation::Put { key: key.to_vec(), value: value.to_vec(), lease: LeaseId::NONE }
}

#[test]
fn keys_are_written_read_and_deleted() {
    if !is_here() {
        return;
    }
    let etcd = Etcd::start(1);
    run(async {
        let client = etcd.client().await;
        assert_eq!(client.get(b"a").await.unwrap(), None);
        let first = client.put(b"a", b"x", LeaseId::NONE).await.unwrap().revision;
        let second = client.put(b"a", b"", LeaseId::NONE).await.unwrap().revision;
        assert_eq!(second, first + 1);
        let found = client.get(b"a").await.unwrap().unwrap();
        assert_eq!((&found.key[..], &found.value[..], found.lease), (&b"a"[..], &b""[..], LeaseId::NONE));
        assert_eq!((found.create_revision, found.mod_revision, found.version), (first, second, 2));

        let every_byte: Vec<u8> = (0..=255).collect();
        client.put(&[b"a", &every_byte[..]].concat(), &every_byte, LeaseId::NONE).await.unwrap();
        client.put(b"b", b"y", LeaseId::NONE).await.unwrap();
        let range = client.range(&Keys::Prefix(b"a".to_vec()), 0).await.unwrap();
        assert_eq!((range.keys.len(), range.more, &range.keys[1].value), (2, false, &every_byte));
        let all = client.range(&Keys::Prefix(Vec::new()), 2).await.unwrap();
        assert_eq!((all.keys.len(), all.more), (2, true));

        let deleted = client.delete(&Keys::Prefix(b"a".to_vec())).await.unwrap();
        assert_eq!(deleted.count, 2);
        assert_eq!(client.delete(&Keys::One(b"a".to_vec())).await.unwrap().count, 0);
        let left = client.range(&Keys::Prefix(Vec::new()), 0).await.unwrap();
        assert_eq!((left.keys.len(), left.revision), (1, deleted.revision));
    });
}

#[test]
fn many_keys_are_read_at_one_revision() {
    if !is_here() {
        return;
    }
    let etcd = Etcd::start(1);
    run(async {
        let client = etcd.client().await;
        for first in (0..2_050u32).step_by(100) {
            let then = (first..first + 100).map(|n| put(format!("k/{n:05}").as_bytes(), b"")).collect();
            client.transact(&Transaction { then, ..Transaction::default() }).await.unwrap();
        }
        let all = client.all(b"k/", 5_000).await.unwrap();
        let keys: Vec<_> = all.keys.iter().map(|key| String::from_utf8_lossy(&key.key).into_owned()).collect();
        assert_eq!(keys, (0..2_100).map(|n| format!("k/{n:05}")).collect::<Vec<_>>());
        assert!(!all.more);
        assert_eq!(client.all(b"k/", 2_100).await.unwrap().keys.len(), 2_100);
        for limit in [10, 1_000, 2_099] {
            let error = client.all(b"k/", limit).await.unwrap_err();
            let endpoint = &etcd.servers[0].endpoint;
            let wanted = format!("etcd at {endpoint} has more than {limit} keys that begin with `k/`");
            assert_eq!(error.to_string(), wanted);
        }
    });
}

#[test]
fn many_keys_with_large_values_are_read_in_smaller_parts() {
    if !is_here() {
        return;
    }
    let etcd = Etcd::start(1);
    run(async {
        let client = etcd.client().await;
        let then = (0..100u32).map(|n| put(format!("k/{n:03}").as_bytes(), &[b'x'; 1_000])).collect();
        client.transact(&Transaction { then, ..Transaction::default() }).await.unwrap();
        let limits = Limits { answer: 20_000, ..etcd.config(0).limits };
        let small = Client::new(Config { limits, ..etcd.config(0) });
        let all = small.all(b"k/", 100).await.unwrap();
        assert_eq!(all, client.all(b"k/", 100).await.unwrap());
        assert_eq!(all.keys.len(), 100);
        let limits = Limits { answer: 1_000, ..limits };
        let error = Client::new(Config { limits, ..etcd.config(0) }).all(b"k/", 100).await.unwrap_err().to_string();
        assert!(error.ends_with("its answer is longer than 1000 bytes"), "{error}");
    });
}

#[test]
fn a_transaction_happens_as_a_whole_or_not_at_all() {
    if !is_here() {
        return;
    }
    let etcd = Etcd::start(1);
    run(async {
        let client = etcd.client().await;
        let claim = |value: &[u8]| Transaction {
            compare: vec![Compare::CreatedAt(b"m".to_vec(), 0)],
            then: vec![put(b"m", value), put(b"n", b"1")],
            otherwise: vec![Operation::Range(Keys::One(b"m".to_vec()))],
        };
        let won = client.transact(&claim(b"first")).await.unwrap();
        assert!(won.succeeded);
        assert!(matches!(won.answers[..], [OperationAnswer::Put(_), OperationAnswer::Put(_)]));
        let lost = client.transact(&claim(b"second")).await.unwrap();
        assert_eq!((lost.succeeded, lost.revision), (false, won.revision));
        let [OperationAnswer::Range(range)] = &lost.answers[..] else { panic!("{lost:?}") };
        assert_eq!((&range.keys[0].value[..], range.keys[0].create_revision), (&b"first"[..], won.revision));

        // One that only compares.
        let compares = |revision| Transaction {
            compare: vec![Compare::CreatedAt(b"m".to_vec(), revision)],
            ..Transaction::default()
        };
        for (revision, holds) in [(won.revision, true), (0, false)] {
            let answer = client.transact(&compares(revision)).await.unwrap();
            assert_eq!((answer.succeeded, answer.revision, answer.answers), (holds, won.revision, Vec::new()));
        }

        // Compare and swap on what was read.
        let swap = |revision| Transaction {
            compare: vec![Compare::ModifiedAt(b"n".to_vec(), revision)],
            then: vec![put(b"n", b"2"), Operation::Delete(Keys::One(b"m".to_vec()))],
            otherwise: Vec::new(),
        };
        assert!(!client.transact(&swap(won.revision - 1)).await.unwrap().succeeded);
        let swapped = client.transact(&swap(won.revision)).await.unwrap();
        assert_eq!((swapped.succeeded, swapped.revision), (true, won.revision + 1));
        assert!(matches!(&swapped.answers[1], OperationAnswer::Delete(deleted) if deleted.count == 1));
        assert!(!client.transact(&swap(won.revision)).await.unwrap().succeeded);
    });
}

#[test]
fn limits_of_etcd_are_named() {
    if !is_here() {
        return;
    }
    let etcd = Etcd::start(1);
    run(async {
        let client = etcd.client().await;
        let transaction = |count: u32| Transaction {
            then: (0..count).map(|n| put(n.to_string().as_bytes(), b"")).collect(),
            ..Transaction::default()
        };
        client.transact(&transaction(128)).await.unwrap();
        let error = client.transact(&transaction(129)).await.unwrap_err();
        assert_eq!(error.refusal(), Some(Refusal::TooManyOperations), "{error}");
        let error = client.put(b"large", &vec![0; 1_600_000], LeaseId::NONE).await.unwrap_err();
        assert_eq!(error.refusal(), Some(Refusal::TooLarge), "{error}");
        assert_eq!(client.get(b"large").await.unwrap(), None);
        let endpoint = &etcd.servers[0].endpoint;
        assert_eq!(error.to_string(), format!("etcd at {endpoint} refuses: etcdserver: request is too large"));
    });
}

#[test]
fn a_key_ends_with_its_lease() {
    if !is_here() {
        return;
    }
    let etcd = Etcd::start(1);
    run(async {
        let client = etcd.client().await;
        let lease = client.grant(1_000).await.unwrap();
        assert_eq!(lease.left.as_secs(), 1_000);
        client.put(b"a", b"", lease.lease).await.unwrap();
        assert_eq!(client.get(b"a").await.unwrap().unwrap().lease, lease.lease);
        let kept = client.keep_alive(lease.lease).await.unwrap().unwrap();
        assert_eq!((kept.lease, kept.left), (lease.lease, lease.left));
        let left = client.time_to_live(lease.lease).await.unwrap().unwrap().left;
        assert!(left <= lease.left, "{left:?}");
        assert!(client.revoke(lease.lease).await.unwrap());
        assert_eq!(client.get(b"a").await.unwrap(), None);
        assert!(!client.revoke(lease.lease).await.unwrap());
        assert_eq!(client.keep_alive(lease.lease).await.unwrap(), None);
        assert_eq!(client.time_to_live(lease.lease).await.unwrap(), None);
        let error = client.put(b"a", b"", lease.lease).await.unwrap_err();
        assert_eq!(error.refusal(), Some(Refusal::NoSuchLease), "{error}");

        // One that nobody renews.
        let short = client.grant(1).await.unwrap();
        client.put(b"b", b"", short.lease).await.unwrap();
        until(async || client.get(b"b").await.unwrap().is_none()).await;
        assert_eq!(client.keep_alive(short.lease).await.unwrap(), None);
    });
}

#[test]
fn a_server_says_how_it_is() {
    if !is_here() {
        return;
    }
    let etcd = Etcd::start(1);
    run(async {
        let client = etcd.client().await;
        let all = client.statuses().await;
        let [(endpoint, Ok(status))] = &all[..] else { panic!("{all:?}") };
        assert_eq!(*endpoint, etcd.servers[0].endpoint);
        assert!(status.version.starts_with("3."), "{status:?}");
        assert!(status.leader != 0 && status.size > 0 && !status.is_learner && status.errors.is_empty(), "{status:?}");
    });
}
