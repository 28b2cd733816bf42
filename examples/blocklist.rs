//! A blocklist that changes while the network runs.
//!
//! A background thread watches a file (`blocklist.txt` in this folder, or the one in the environment variable
//! `MAPLE_BLOCKLIST`) and keeps the table `blocked` equal to it. The table is tracked state: when a host enters or
//! leaves it, Maple takes back exactly the rules that depend on this host, and runs the policy for its next packets.
//!
//! A host in it neither sends nor is sent to. Broadcasts of others still reach it: a flood leaves by all edge ports.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use maple::prelude::*;

fn blocklist(blocked: &Table<Mac, bool>, pkt: &Packet, net: &Net) -> Route {
    let (src, dst) = (pkt.eth_src().get(), pkt.eth_dst().get());
    if blocked.contains(net, &src) || blocked.contains(net, &dst) {
        return Route::drop();
    }
    match (net.locate(dst), net.locate(src)) {
        (Some(dst), Some(src)) => net.shortest_path(src, dst),
        _ => net.flood(),
    }
}

/// Returns the addresses in the file. Reports and skips a line that is not an address.
fn read(name: &str) -> std::io::Result<BTreeSet<Mac>> {
    let text = std::fs::read_to_string(name)?;
    let mut addresses = BTreeSet::new();
    for (index, line) in text.lines().enumerate() {
        match line.split('#').next().unwrap_or_default().trim() {
            "" => {}
            word => match word.parse() {
                Ok(mac) => drop(addresses.insert(mac)),
                Err(error) => eprintln!("{name}:{}: {error}", index + 1),
            },
        }
    }
    Ok(addresses)
}

/// Changes the table from `old` to `new`.
fn change(blocked: &Table<Mac, bool>, tx: &Tx, old: &BTreeSet<Mac>, new: &BTreeSet<Mac>) {
    new.difference(old).for_each(|mac| blocked.set(tx, mac, &true));
    old.difference(new).for_each(|mac| blocked.delete(tx, mac));
}

fn main() -> ExitCode {
    let name = std::env::var("MAPLE_BLOCKLIST").unwrap_or_else(|_| "examples/blocklist.txt".into());
    let mut listed = match read(&name) {
        Ok(listed) => listed,
        Err(error) => {
            eprintln!("{name}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let blocked = Table::new("blocked");
    let policy = {
        let blocked = blocked.clone();
        move |pkt: &Packet, net: &Net| blocklist(&blocked, pkt, net)
    };
    let first = |tx: &Tx| change(&blocked, tx, &BTreeSet::new(), &listed);
    let app = App::new(policy).table(&blocked).with_state(first);
    let watch = move |controller: maple::controller::Handle| {
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(200));
                match read(&name) {
                    Ok(new) => {
                        let changed = controller.atomically(None, |tx| {
                            change(&blocked, tx, &listed, &new);
                            Ok(())
                        });
                        if changed.is_err() {
                            return;
                        }
                        listed = new;
                    }
                    Err(error) => eprintln!("{name}: {error}"),
                }
            }
        });
    };
    maple_cli::run(app.on_start(watch))
}
