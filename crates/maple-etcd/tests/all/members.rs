//! Three servers, of which some are killed.

use maple_etcd::{Change, Compare, EtcdError, Keys, LeaseId, Transaction, WatchEvent};

use crate::server::{Etcd, is_here, run, until};

#[test]
fn two_of_three_servers_are_enough_and_one_is_not() {
    if !is_here() {
        return;
    }
    let mut etcd = Etcd::start(3);
    run(async {
        let client = etcd.client().await;
        let revision = client.put(b"a", b"0", LeaseId::NONE).await.unwrap().revision;
        let lease = client.grant(1_000).await.unwrap().lease;
        let mut watch = client.watch(Keys::One(b"a".to_vec()), revision);
        assert!(matches!(watch.next().await.unwrap(), WatchEvent::Changes(_)));

        // The first one is the one that client and watch are connected with.
        etcd.servers[0].kill();
        let error = watch.next().await.unwrap_err();
        assert!(matches!(error, EtcdError::WatchEnded(_)), "{error}");
        until(async || client.get(b"a").await.is_ok()).await;
        // What is not known to be done is looked up. Here it may be done twice.
        let mut writes = 0;
        until(async || {
            writes += 1;
            match client.put(b"a", b"1", LeaseId::NONE).await {
                Ok(_) => true,
                Err(EtcdError::Refused { refusal, .. }) => panic!("{refusal}"),
                Err(_) => false,
            }
        })
        .await;
        let mut reported = 0;
        until(async || {
            if let Ok(WatchEvent::Changes(changes)) = watch.next().await {
                for change in changes {
                    assert!(matches!(&change, Change::Put(kv) if kv.value == b"1"), "{change:?}");
                    reported += 1;
                }
            }
            reported > 0
        })
        .await;
        assert!(reported <= writes);
        until(async || client.keep_alive(lease).await.is_ok_and(|kept| kept.is_some())).await;

        // One server alone says that it has no leader, or nothing.
        etcd.servers[1].kill();
        until(async || {
            let read = client.get(b"a").await;
            matches!(read, Err(EtcdError::Unreachable(failures)) if failures.len() == 3)
        })
        .await;
        let error = client.put(b"a", b"2", LeaseId::NONE).await.unwrap_err();
        assert!(matches!(error, EtcdError::Unreachable(_) | EtcdError::Uncertain(_)), "{error}");
        until(async || watch.next().await.is_err()).await;
        // From its own store it could say that the condition does not hold, which may be wrong by now.
        let only_compares =
            Transaction { compare: vec![Compare::CreatedAt(b"a".to_vec(), 0)], ..Transaction::default() };
        let error = client.transact(&only_compares).await.unwrap_err();
        assert!(matches!(error, EtcdError::Unreachable(_)), "{error}");

        etcd.servers[0].start();
        until(async || client.get(b"a").await.is_ok()).await;
        until(async || client.put(b"a", b"3", LeaseId::NONE).await.is_ok()).await;
        until(async || match watch.next().await {
            Ok(WatchEvent::Changes(changes)) => {
                changes.iter().any(|change| matches!(change, Change::Put(kv) if kv.value == b"3"))
            }
            Ok(WatchEvent::Missed) => panic!("nothing was compacted"),
            Ok(WatchEvent::Progress(_)) | Err(_) => false,
        })
        .await;
        let statuses = client.statuses().await;
        let answered: Vec<_> = statuses.iter().map(|(_, status)| status.is_ok()).collect();
        assert_eq!(answered, [true, false, true], "{statuses:?}");
    });
}
