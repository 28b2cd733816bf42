//! Costs of keeping state over a restart: `cargo bench -p maple-controller --bench persistence`.
//!
//! Threads write to a table through a running controller, each write acknowledged before the next: to one that is not
//! kept, and to one that is on the disk when the write is acknowledged. Medians of rounds that take turns.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use maple_controller::{Controller, ControllerOptions, Handle};
use maple_core::state::{Store, Table, Tx};
use maple_core::{Net, PacketHandle, Route};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(400);

fn main() {
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    // Beside the build, as temporary folders are often in memory.
    let file = std::env::current_exe().expect("a program has a file").with_extension("state");
    drop(std::fs::remove_file(&file));
    let mut options = ControllerOptions::new(Arc::new(|_: &PacketHandle, _: &Net| Route::flood()));
    options.openflow.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    (options.workers.count, options.workers.pin) = (1, false);
    options.store = Store::new();
    options.store.keep("kept");
    options.memory.state_file = Some(file.clone());
    let controller = Controller::start(options).expect("the file can be made");
    println!("acknowledged writes a second, each thread to a key of its own; the file is {}", file.display());
    println!("  threads  not kept     kept  kept, for each thread");
    for threads in [1, 4, 16, 64] {
        let round = |_| [rate(controller.handle(), "other", threads), rate(controller.handle(), "kept", threads)];
        let measured: Vec<[f64; 2]> = (0..ROUNDS).map(round).collect();
        let median = |index: usize| {
            let mut all: Vec<f64> = measured.iter().map(|round| round[index]).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        println!("  {threads:>7}  {:>8.0} {:>8.0}  {:>21.1}", median(0), median(1), median(1) / threads as f64);
    }
    controller.stop();
    drop(std::fs::remove_file(file));
}

/// Returns the number of writes a second that this many threads do.
fn rate(handle: Handle, table: &str, threads: usize) -> f64 {
    let begun = Instant::now();
    let work = |thread: usize| {
        let table = Table::<i64, i64>::new(table);
        let mut done = 0i64;
        while begun.elapsed() < ROUND {
            let set = |tx: &Tx| {
                table.set(tx, &(thread as i64), &done);
                Ok(())
            };
            handle.atomically(None, set).expect("it is acknowledged");
            done += 1;
        }
        done
    };
    let done: i64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it writes")).sum()
    });
    done as f64 / begun.elapsed().as_secs_f64()
}
