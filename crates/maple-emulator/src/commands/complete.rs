//! Completion of a command that is being typed.

use super::CommandRunner;
use super::command::{FIRST, HOST, SHOWN};

impl CommandRunner {
    /// Returns the words that may follow these words of a command, in order, without those of a controller.
    pub fn completions(&self, words: &[&str]) -> Vec<String> {
        let words = match words {
            ["not", rest @ ..] => rest,
            words => words,
        };
        let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        match words {
            [] => [self.hosts(), owned(&FIRST)].concat(),
            ["link"] | ["link", _] | ["port" | "queue" | "switch"] => self.switches(),
            ["link", _, _] => owned(&["up", "down", "loss", "delay", "rate"]),
            ["port", place] if place.contains(':') => owned(&["up", "down", "rate"]),
            ["port", _, _] => owned(&["up", "down", "rate"]),
            ["switch", _] => owned(&["restart"]),
            ["show"] => SHOWN.iter().map(|(name, _)| (*name).to_owned()).chain(["emulated".to_owned()]).collect(),
            ["show", "emulated"] => SHOWN.iter().map(|(name, _)| (*name).to_owned()).collect(),
            ["show", ..] => self.switches(),
            ["explain" | "state", ..] => [self.hosts(), self.switches()].concat(),
            [host] if self.host(host).is_ok() => owned(&HOST),
            [_, "ping" | "iperf"] | [_, "ping", "-c", _] => self.hosts(),
            [_, "move"] => self.switches(),
            _ => Vec::new(),
        }
    }

    fn hosts(&self) -> Vec<String> {
        self.topology().hosts.iter().map(|host| host.name.clone()).collect()
    }

    fn switches(&self) -> Vec<String> {
        self.topology().switches.iter().map(|switch| switch.name.clone()).collect()
    }
}
