//! The commands: their words and their meaning.

use maple_switch::QueueRates;
use maple_switch::time::{Nanoseconds, SECOND};
use maple_wire::{Dpid, PortNo, nearest};

use super::CommandError;
use super::words::words;
use crate::quantity;

/// The output of `help`.
pub const HELP: &str = "\
h1 ping h2 [COUNT]                 echo requests, one a second; also h1 ping -c 3 10.0.0.2
pingall                            every host to every other, once
h1 iperf h2 [TIME] [RATE]          a stream of datagrams: what arrives [5s 10mbit]
h1 move s4 [PORT]                  plugs a host in elsewhere; it announces itself
link s1 s2 up|down                 all links between two switches
link s1 s2 loss 5% | delay 10ms | rate 10mbit|off
port s1 3 up|down | rate 10mbit|off
queue s1 3 1 [min 1mbit] [max 5mbit] | off
switch s3 restart                  loses its rules and its connection
show hosts|links|switches|queues|losses
show rules|groups|meters [s1]      in `maple run` with `emulated`, if the controller shows it too: show emulated links
show …, explain …, state …         in `maple run`, as `maple show`, `maple explain`, `maple state`: show rules s1 (and why),
                                   explain --from h1 --to h3, state set blocked h1 true; --help says more
wait 2s                            lets time pass
not COMMAND                        fails if the command works: not h1 ping h3
help, exit
";

/// A command.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Echo requests, one a second.
    Ping {
        /// The host that sends requests.
        from: String,
        /// The host that answers.
        to: String,
        /// The number of requests.
        count: u32,
    },
    /// Every host pings every other.
    PingAll,
    /// A stream of datagrams.
    Iperf {
        /// The sending host.
        from: String,
        /// The receiving host.
        to: String,
        /// The duration.
        duration: Nanoseconds,
        /// The rate, in bits a second.
        rate: u64,
    },
    /// Plugs a host into another port.
    Move {
        /// The host.
        host: String,
        /// The switch.
        switch: String,
        /// The port; the first free one if `None`.
        port: Option<u32>,
    },
    /// Changes the links between two switches.
    Link {
        /// One switch.
        a: String,
        /// The other.
        b: String,
        /// The change.
        change: LinkChange,
    },
    /// Changes a port.
    Port {
        /// The switch.
        switch: String,
        /// The port.
        port: u32,
        /// The change.
        change: PortChange,
    },
    /// Adds, changes or removes a queue.
    Queue {
        /// The switch.
        switch: String,
        /// The port.
        port: u32,
        /// The queue.
        queue: u32,
        /// Its rates. `None` removes the queue.
        rates: Option<QueueRates>,
    },
    /// Restarts a switch, which loses its rules and its connection.
    Restart {
        /// The switch.
        switch: String,
    },
    /// Prints a part of the network.
    Show {
        /// The part.
        what: Show,
        /// The switch; `None`: all switches.
        switch: Option<String>,
    },
    /// Queries the controller in the same process.
    Ask {
        /// The query, as a command of `maple`.
        words: Vec<String>,
        /// The command to run without a controller, or the error that it needs one.
        without: Box<Result<Command, String>>,
    },
    /// Lets time pass.
    Wait(Nanoseconds),
    /// Succeeds if the command fails.
    Not(Box<Command>),
    /// Prints the commands.
    Help,
    /// Ends the console or script.
    Exit,
}

/// A change of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkChange {
    /// The link goes up or down.
    Up(bool),
    /// The share of frames that it loses.
    Loss(f64),
    /// The delay of frames.
    Delay(Nanoseconds),
    /// The rate in each direction, in bits a second.
    Rate(Option<u64>),
}

/// A change of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortChange {
    /// The operator takes the port up or down.
    Up(bool),
    /// The rate of the port, in bits a second.
    Rate(Option<u64>),
}

/// The parts of the network that can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// Hosts and their places.
    Hosts,
    /// Links with their state.
    Links,
    /// Switches and their statistics.
    Switches,
    /// Rules.
    Rules,
    /// Groups.
    Groups,
    /// Meters.
    Meters,
    /// Queues.
    Queues,
    /// Losses with their reasons.
    Losses,
}

/// The first words of commands.
pub(super) const FIRST: [&str; 12] =
    ["pingall", "link", "port", "queue", "switch", "show", "explain", "state", "wait", "not", "help", "exit"];
/// The commands of hosts.
pub(super) const HOST: [&str; 3] = ["ping", "iperf", "move"];
/// The words for the parts that can be shown.
pub(super) const SHOWN: [(&str, Show); 8] = [
    ("hosts", Show::Hosts),
    ("links", Show::Links),
    ("switches", Show::Switches),
    ("rules", Show::Rules),
    ("groups", Show::Groups),
    ("meters", Show::Meters),
    ("queues", Show::Queues),
    ("losses", Show::Losses),
];

/// The reason why a command cannot run.
const NO_CONTROLLER: &str = "asks a controller in the same process, as `maple run POLICY --emulate TOPOLOGY` has";

/// The maximum number of requests of a ping, one a second. Chosen: one day.
const MAX_COUNT: u32 = 86_400;

impl Command {
    /// Parses the command of a line; `None` for an empty line or a comment.
    ///
    /// # Errors
    /// [`CommandError::Wrong`], with the command's form or a suggestion.
    pub fn parse(line: &str) -> Result<Option<Command>, CommandError> {
        let words = words(line).map_err(CommandError::Wrong)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let words = with_places(&words);
        if words.is_empty() { Ok(None) } else { Command::from_words(&words).map(Some).map_err(CommandError::Wrong) }
    }

    fn from_words(words: &[&str]) -> Result<Command, String> {
        match words {
            ["help" | "?"] => Ok(Command::Help),
            ["exit" | "quit"] => Ok(Command::Exit),
            ["pingall"] => Ok(Command::PingAll),
            [alone @ ("help" | "exit" | "quit" | "pingall"), ..] => Err(format!("{alone} takes no more words")),
            ["wait", span] => quantity::time(span).map(Command::Wait),
            ["wait", ..] => Err("wait TIME, such as wait 2s".into()),
            ["not", rest @ ..] if !rest.is_empty() => {
                Command::from_words(rest).map(|command| Command::Not(Box::new(command)))
            }
            ["not"] => Err("not COMMAND, such as not h1 ping h3".into()),
            ["link", rest @ ..] => Command::link(rest),
            ["port", rest @ ..] => Command::port(rest),
            ["queue", rest @ ..] => Command::queue(rest),
            ["switch", switch, "restart"] => Ok(Command::Restart { switch: (*switch).into() }),
            ["switch", ..] => Err("switch SWITCH restart, such as switch s3 restart".into()),
            ["show", rest @ ..] => Command::show(rest),
            ["explain" | "state", ..] => Ok(Command::ask(words, Err(format!("{} {NO_CONTROLLER}", words[0])))),
            ["ping", a, b, ..] => Err(format!("the host comes first: {a} ping {b}")),
            ["iperf", a, b, ..] => Err(format!("the host comes first: {a} iperf {b}")),
            ["move", a, b, ..] => Err(format!("the host comes first: {a} move {b}")),
            [host, "ping", to] => Command::ping(host, to, "1"),
            [host, "ping", "-c", count, to] | [host, "ping", to, "-c", count] | [host, "ping", to, count] => {
                Command::ping(host, to, count)
            }
            [_, "ping", ..] => Err("HOST ping HOST [COUNT], such as h1 ping h2 3".into()),
            [host, "iperf", to, rest @ ..] if rest.len() <= 2 => {
                let duration = rest.first().map_or(Ok(5 * SECOND), |text| quantity::time(text))?;
                let rate = rest.get(1).map_or(Ok(10_000_000), |text| quantity::rate(text))?;
                Ok(Command::Iperf { from: (*host).into(), to: (*to).into(), duration, rate })
            }
            [_, "iperf", ..] => Err("HOST iperf HOST [TIME] [RATE], such as h1 iperf h2 5s 10mbit".into()),
            [host, "move", switch] => Ok(Command::Move { host: (*host).into(), switch: (*switch).into(), port: None }),
            [host, "move", switch, port] => {
                Ok(Command::Move { host: (*host).into(), switch: (*switch).into(), port: Some(port_number(port)?) })
            }
            [_, "move", ..] => Err("HOST move SWITCH [PORT], such as h1 move s4".into()),
            [first, rest @ ..] => Err(unknown(first, rest)),
            [] => Err("a command is expected".into()),
        }
    }

    fn ping(from: &str, to: &str, count: &str) -> Result<Command, String> {
        let number = count.parse().ok().filter(|count| (1..=MAX_COUNT).contains(count));
        let number = number.ok_or_else(|| format!("{count:?} is not a count from 1 to {MAX_COUNT}"))?;
        Ok(Command::Ping { from: from.into(), to: to.into(), count: number })
    }

    fn ask(words: &[&str], without: Result<Command, String>) -> Command {
        Command::Ask { words: words.iter().map(ToString::to_string).collect(), without: Box::new(without) }
    }

    fn link(words: &[&str]) -> Result<Command, String> {
        let change = match words {
            [_, _, "up"] => LinkChange::Up(true),
            [_, _, "down"] => LinkChange::Up(false),
            [_, _, "loss", share] => LinkChange::Loss(quantity::share(share)?),
            [_, _, "delay", span] => LinkChange::Delay(quantity::time(span)?),
            [_, _, "rate", rate] => LinkChange::Rate(rate_or_off(rate)?),
            _ => return Err("link SWITCH SWITCH up|down|loss 5%|delay 10ms|rate 10mbit|rate off".into()),
        };
        Ok(Command::Link { a: words[0].into(), b: words[1].into(), change })
    }

    fn port(words: &[&str]) -> Result<Command, String> {
        let change = match words {
            [_, _, "up"] => PortChange::Up(true),
            [_, _, "down"] => PortChange::Up(false),
            [_, _, "rate", rate] => PortChange::Rate(rate_or_off(rate)?),
            _ => return Err("port SWITCH PORT up|down|rate 10mbit|rate off, such as port s1 3 down".into()),
        };
        Ok(Command::Port { switch: words[0].into(), port: port_number(words[1])?, change })
    }

    fn queue(words: &[&str]) -> Result<Command, String> {
        let form = "queue SWITCH PORT QUEUE [min RATE] [max RATE] | off, such as queue s1 2 1 max 1mbit";
        let [switch, port, queue, rest @ ..] = words else { return Err(form.into()) };
        let queue: u32 = queue.parse().map_err(|_| format!("{queue:?} is not a queue's number"))?;
        if queue == u32::MAX {
            return Err(format!("{queue} means all queues"));
        }
        let rates = match rest {
            ["off"] => None,
            [] => Some(QueueRates::default()),
            ["min", min] => Some(QueueRates { min: Some(quantity::rate(min)?), max: None }),
            ["max", max] => Some(QueueRates { min: None, max: Some(quantity::rate(max)?) }),
            ["min", min, "max", max] | ["max", max, "min", min] => {
                let (min, max) = (quantity::rate(min)?, quantity::rate(max)?);
                if min > max {
                    return Err("a queue's least is more than its most".into());
                }
                Some(QueueRates { min: Some(min), max: Some(max) })
            }
            _ => return Err(form.into()),
        };
        Ok(Command::Queue { switch: (*switch).into(), port: port_number(port)?, queue, rates })
    }

    /// Parses `show`. The network itself shows what only it knows; everything else is a query to the controller, if
    /// there is one.
    fn show(words: &[&str]) -> Result<Command, String> {
        match words {
            ["emulated", rest @ ..] => Command::parsed_text(rest),
            ["queues" | "losses" | "meters", ..] => Command::parsed_text(words),
            _ => Ok(Command::ask(&[&["show"], words].concat(), Command::parsed_text(words))),
        }
    }

    fn parsed_text(words: &[&str]) -> Result<Command, String> {
        let names = SHOWN.iter().map(|(name, _)| *name);
        let all = names.clone().collect::<Vec<_>>().join("|");
        let [name, rest @ ..] = words else { return Err(format!("show {all}")) };
        let Some((_, what)) = SHOWN.iter().find(|(known, _)| known == name) else {
            let meant = nearest(name, names).map(|near| format!("; did you mean show {near}?"));
            return Err(format!("there is nothing called {name} to show{}", meant.unwrap_or(format!(": show {all}"))));
        };
        match rest {
            [] => Ok(Command::Show { what: *what, switch: None }),
            [switch] if matches!(what, Show::Rules | Show::Groups | Show::Meters) => {
                Ok(Command::Show { what: *what, switch: Some((*switch).into()) })
            }
            _ => Err(format!("show {name} takes no more words")),
        }
    }
}

/// Divides places in the form in which they are shown (`s1:3`) into two words, where a command takes a switch and a
/// port.
fn with_places<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let first = words.iter().take_while(|word| **word == "not").count();
    let at = match words.get(first..) {
        Some(["port" | "queue", ..]) => first + 1,
        Some([_, "move", ..]) => first + 2,
        _ => return words.to_vec(),
    };
    let is_switch = |word: &str| word.parse::<Dpid>().is_ok();
    let split = |(index, word): (usize, &&'a str)| match word.rsplit_once(':') {
        Some((switch, port)) if index == at && !is_switch(word) => vec![switch, port],
        _ => vec![*word],
    };
    words.iter().enumerate().flat_map(split).collect()
}

/// Returns the error for a line that is not a command.
fn unknown(first: &str, rest: &[&str]) -> String {
    if let Some(near) = nearest(first, FIRST) {
        return format!("there is no command {first}; did you mean {near}?");
    }
    if let Some(near) = rest.first().and_then(|word| nearest(word, HOST)) {
        return format!("{first} can't {}; did you mean {first} {near}?", rest[0]);
    }
    format!("there is no command {first}; help says what there is")
}

fn port_number(text: &str) -> Result<u32, String> {
    let number = text.parse::<PortNo>().ok().filter(|port| port.is_ordinary_or_local()).map(|port| port.0);
    number.ok_or_else(|| format!("{text:?} is not a port: a number, or LOCAL"))
}

fn rate_or_off(text: &str) -> Result<Option<u64>, String> {
    if text == "off" { Ok(None) } else { quantity::rate(text).map(Some) }
}
