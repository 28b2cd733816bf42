//! What Python code outside of runs works on: the store of this process, and the way to the controller that uses it.

use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use maple_core::state::{Commit, Store, Write};

/// Tells a running controller what a commit made necessary.
pub type Publish = Arc<dyn Fn(Commit) + Send + Sync>;

struct Host {
    store: Arc<Store>,
    publish: Option<Publish>,
}

static HOST: LazyLock<RwLock<Host>> = LazyLock::new(|| RwLock::new(Host { store: Store::new(), publish: None }));

/// The store that tables and variables live in.
pub fn store() -> Arc<Store> {
    HOST.read().unwrap_or_else(PoisonError::into_inner).store.clone()
}

/// Lets tables and variables live in `store` from now on.
pub fn use_store(store: Arc<Store>) {
    *HOST.write().unwrap_or_else(PoisonError::into_inner) = Host { store, publish: None };
}

/// Tells the controller of commits from now on.
pub fn use_publisher(publish: Publish) {
    HOST.write().unwrap_or_else(PoisonError::into_inner).publish = Some(publish);
}

/// Writes in a transaction of its own.
pub fn publish(writes: Vec<Write>) {
    let (store, publish) = {
        let host = HOST.read().unwrap_or_else(PoisonError::into_inner);
        (host.store.clone(), host.publish.clone())
    };
    let commit = store.update(|_| writes);
    if let Some(publish) = publish {
        publish(commit);
    }
}
