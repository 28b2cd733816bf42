//! A blocklist that changes while the network runs.
//!
//! A background thread watches a file (`blocklist.txt` beside this one, or what the environment variable
//! `MAPLE_BLOCKLIST` names) and keeps the table `blocked` equal to it. The table is tracked state: when a host enters or
//! leaves it, exactly the rules that asked about this host are taken back, and the next packets are decided anew.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use maple::{App, Mac, Net, PacketHandle, Route, Table, Value, Write};

const TABLE: &str = "blocked";

fn blocklist(pkt: &PacketHandle, net: &Net) -> Route {
    let (src, dst) = (pkt.eth_src(), pkt.eth_dst());
    if net.contains(TABLE, &src.into()) || net.contains(TABLE, &dst.into()) {
        return Route::drop();
    }
    match (net.locate(dst), net.locate(src)) {
        (Some(dst), Some(src)) => net.shortest_path(src, dst),
        _ => Route::flood(),
    }
}

/// The addresses in the file; a line that is no address is reported and skipped.
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

/// What makes the table `new` where it was `old`.
fn changes(old: &BTreeSet<Mac>, new: &BTreeSet<Mac>) -> Vec<Write> {
    let write = |mac: &Mac, value| Write::Table { table: TABLE.into(), key: (*mac).into(), value };
    let added = new.difference(old).map(|mac| write(mac, Some(Value::from(true))));
    added.chain(old.difference(new).map(|mac| write(mac, None))).collect()
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
    let first = changes(&BTreeSet::new(), &listed);
    let watch = move |controller: maple::Handle| {
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(200));
                match read(&name) {
                    Ok(new) => {
                        let changes = changes(&listed, &new);
                        if !changes.is_empty() && !controller.write(changes) {
                            return;
                        }
                        listed = new;
                    }
                    Err(error) => eprintln!("{name}: {error}"),
                }
            }
        });
    };
    maple_cli::run(App::new(blocklist).table(&Table::<Mac, bool>::new(TABLE)).write(first).on_start(watch))
}
