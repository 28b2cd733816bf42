//! Completion of words with Tab.

use clap::CommandFactory as _;
use maple_emulator::commands::CommandRunner;

use super::asking::ControllerCommand;

/// Returns the start of the last word before the cursor, and its possible completions, in order.
pub fn complete(runner: &CommandRunner, asks: bool, before: &str) -> (usize, Vec<String>) {
    let start = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let (words, begun) = (before[..start].split_whitespace().collect::<Vec<_>>(), &before[start..]);
    let mut all = runner.completions(&words);
    if asks {
        all.extend(of_question(&words, begun.starts_with('-')));
    }
    all.retain(|word| word.starts_with(begun));
    all.sort_unstable();
    all.dedup();
    if let [only] = all.as_mut_slice() {
        only.push(' ');
    }
    (start, all)
}

/// Returns the possible next words of a question to the controller: subcommands or options.
fn of_question(words: &[&str], is_option: bool) -> Vec<String> {
    let words = words.iter().skip_while(|word| **word == "not");
    let mut command = ControllerCommand::command();
    for (place, word) in words.enumerate() {
        match command.find_subcommand(word) {
            Some(next) => command = next.clone(),
            None if place == 0 => return Vec::new(),
            None => break,
        }
    }
    if is_option {
        command.get_opts().filter_map(|option| Some(format!("--{}", option.get_long()?))).collect()
    } else {
        command.get_subcommands().map(|command| command.get_name().to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use maple_emulator::Topology;

    use super::*;

    #[test]
    fn words_become_commands_names_and_options() {
        let runner = CommandRunner::new(Topology::parse("linear:12").expect("a topology"));
        let words = |before: &str| complete(&runner, true, before).1.join("|");
        for (before, all) in [
            ("pin", "pingall "),
            ("h1", "h1|h10|h11|h12"),
            ("h12 p", "ping "),
            ("h2 ping h1", "h1|h10|h11|h12"),
            ("link s2 s1", "s1|s10|s11|s12"),
            ("show ru", "rules "),
            ("show l", "labels|leases|links|log|losses"),
            ("show rules s12 --ta", "--table "),
            ("not state w", "watch "),
            ("explain --fr", "--from "),
            ("explain --from h12", "h12 "),
            ("pingall x", ""),
        ] {
            assert_eq!(words(before), all, "{before}");
        }
        assert_eq!(complete(&runner, true, "h2 ping h12").0, 8);
        assert_eq!(complete(&runner, false, "state w").1, Vec::<String>::new());
    }
}
