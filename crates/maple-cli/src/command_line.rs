//! The command line of `maple`: its commands.

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::acl::AclArgs;
use crate::cluster::ClusterCommandArgs;
use crate::config::{self, Config, ConfigArgs, Merged, Origins};
use crate::decode::DecodeArgs;
use crate::explain::ExplainArgs;
use crate::manual::{CompletionsArgs, ManArgs};
use crate::options::{
    ApplyArgs, CheckArgs, DoctorArgs, EmulateArgs, LoadArgs, PlanArgs, ReloadArgs, ReplayArgs, RollbackArgs, RunArgs,
    ShowArgs,
};
use crate::output::IS_OPTIMISED;
use crate::state::StateArgs;
use crate::test_command::TestArgs;
use crate::top::TopArgs;
use crate::values::with_values;

/// The output of `maple --version`.
const VERSION: &str =
    if IS_OPTIMISED { env!("CARGO_PKG_VERSION") } else { concat!(env!("CARGO_PKG_VERSION"), " (not optimised)") };

/// A network that behaves as if one function ran on every packet.
#[derive(Debug, Parser)]
#[command(name = "maple", version = VERSION, max_term_width = 100)]
pub struct CommandLine {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
    /// The origins of the options of `maple run`, for `maple config show`.
    #[arg(skip)]
    pub origins: Origins,
}

/// The reason why a command line can't be used.
pub enum ParseError {
    /// The command line is invalid.
    Usage(clap::Error),
    /// The configuration that it names is invalid.
    Config(anyhow::Error),
}

impl From<clap::Error> for ParseError {
    fn from(error: clap::Error) -> ParseError {
        ParseError::Usage(error)
    }
}

/// Returns the definition of the command line.
pub fn definition() -> clap::Command {
    let of_config = |command: clap::Command| if command.get_name() == "show" { with_values(command) } else { command };
    CommandLine::command().mut_subcommands(|command| match command.get_name() {
        "run" => with_values(command),
        "config" => command.mut_subcommands(of_config),
        _ => command,
    })
}

/// Parses a command line, and the configuration that it names.
///
/// # Errors
/// [`ParseError`] if the command line or the configuration is invalid.
pub fn parse(arguments: Vec<OsString>) -> Result<CommandLine, ParseError> {
    let (given, missing) = config::parse_given(definition(), &arguments)?;
    // The place where the arguments of `maple run` begin.
    let run = match given.subcommand() {
        Some(("run", run)) => Some((2, run)),
        Some(("config", config)) => config.subcommand_matches("show").map(|show| (3, show)),
        _ => None,
    };
    let Some((place, run)) = run else {
        return missing.map_or_else(|| Ok(CommandLine::from_arg_matches(&given)?), |error| Err(error.into()));
    };
    let merged = config::merge(arguments, place, run).map_err(ParseError::Config)?;
    let Some(Merged { arguments, config, configured }) = merged else {
        if let Some(error) = missing {
            return Err(error.into());
        }
        let origins = Origins::from_arguments(run, run, Config::default());
        return Ok(CommandLine { origins, ..CommandLine::from_arg_matches(&given)? });
    };
    let all = definition().try_get_matches_from(arguments)?;
    let mut parsed = CommandLine::from_arg_matches(&all)?;
    if let Command::Run(args) = &mut parsed.command {
        args.options.network = config.network.clone();
        args.options.configured = Some(configured);
    }
    let matches = all.subcommand_matches("config").and_then(|config| config.subcommand_matches("show"));
    parsed.origins = Origins::from_arguments(run, matches.unwrap_or(run), config);
    Ok(parsed)
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a policy: as a controller for real switches, or on an emulated network
    Run(Box<RunArgs>),
    /// Run a changed policy, or another one, in a running controller: no packet is lost
    Reload(ReloadArgs),
    /// Say what a policy would change in a running controller: who loses, who gains, and which rules
    ///
    /// Ends with status 0 if nothing would change, 2 if something would, and 1 on an error.
    Plan(PlanArgs),
    /// Run a recording of `maple run --record` again, without a network, and say whether it does the same
    ///
    /// Ends with status 0 if every message to switches is the same byte for byte (with --policy: and the policy decides
    /// every packet the same), 2 if something differs, and 1 on an error.
    Replay(ReplayArgs),
    /// Do what a plan says, unless something else would change by now
    Apply(ApplyArgs),
    /// Run the policy again that ran before the last `maple apply` or `maple reload`
    Rollback(RollbackArgs),
    /// Search for reads of a policy that Maple cannot track: clocks, random numbers, globals, files
    Check(CheckArgs),
    /// Run the tests beside policies in Python, with pytest
    Test(TestArgs),
    /// Emulate a network of OpenFlow switches and hosts, for any controller
    Emulate(EmulateArgs),
    /// Send packets of many switches to a controller, and time its answers
    Load(LoadArgs),
    /// Print OpenFlow messages
    Decode(DecodeArgs),
    /// Query a running controller
    Show(ShowArgs),
    /// Watch a running controller in the terminal: rates, who sends most, drops by line, errors, switches
    Top(TopArgs),
    /// Say why a packet goes where it goes: what the policy asks, which rules take it, and what would have to be
    /// different
    Explain(Box<ExplainArgs>),
    /// Say what will go wrong on this host and in its controller, and what mends it
    ///
    /// Ends with status 0 if there are notes at most, 2 if there is a warning or an error, and 1 if the command failed.
    Doctor(DoctorArgs),
    /// Read, change or watch tracked state of a running controller
    State(StateArgs),
    /// Change who is master of several controllers
    Cluster(ClusterCommandArgs),
    /// Check, test and compare access lists
    Acl(AclArgs),
    /// Check a configuration, or print the one in effect
    Config(ConfigArgs),
    /// Print the JSON schema of the control socket's requests and answers
    Schema,
    /// Print what a shell needs to complete commands and options
    Completions(CompletionsArgs),
    /// Write manual pages, one for each command
    Man(ManArgs),
}

impl Command {
    /// Returns the reason why options that are valid one by one can't be used together.
    pub fn refusal(&self) -> Option<clap::Error> {
        match self {
            Command::Run(args) => args.refusal(),
            Command::Emulate(args) => args.refusal(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        definition().debug_assert();
    }

    #[test]
    fn options_of_a_cluster_need_each_other() {
        let error = |text: &str| match parse(text.split(' ').map(OsString::from).collect()) {
            Err(ParseError::Usage(error)) => error.to_string(),
            _ => panic!("{text}: nothing is wrong"),
        };
        let run = "maple run builtin:flood";
        assert!(error(&format!("{run} --cluster etcd://a/x")).contains("--name <NAME>"));
        assert!(error(&format!("{run} --name n1")).contains("--cluster <ADDRESS>"));
        let member = format!("{run} --cluster etcd://a/x --name n1");
        assert!(error(&format!("{member} --cluster-ca f --cluster-cert f")).contains("--cluster-key <FILE>"));
        let in_the_clear = error(&format!("{member} --cluster-user u --cluster-password-file f"));
        assert!(in_the_clear.contains("--cluster-ca <FILE>"), "{in_the_clear}");
        let address = error(&format!("{run} --cluster etcd://u:p@a/x --name n1"));
        assert!(address.contains("an address of etcd has no user and no password"), "{address}");
        let name = error(&format!("{run} --cluster etcd://a/x --name n/1"));
        assert!(name.contains("a name is of 1 to 63 letters, digits, `-`, `_` and `.`"), "{name}");
    }

    #[test]
    fn options_that_would_do_nothing_are_refused() {
        let refusal = |text: &str| match parse(text.split(' ').map(OsString::from).collect()).map(|line| line.command) {
            Ok(Command::Run(args)) => args.refusal(),
            Ok(Command::Emulate(args)) => args.refusal(),
            Ok(other) => panic!("{text}: {other:?}"),
            Err(_) => panic!("{text} is wrong"),
        };
        for option in ["--of 1.0", "--traffic 1s", "--rate 5", "--seed 2", "--check off"] {
            let error = refusal(&format!("maple run builtin:flood {option}")).expect(option);
            assert_eq!(error.exit_code(), 2);
            let name = option.split(' ').next().expect("it has a name");
            assert!(error.to_string().contains(&format!("{name} needs --emulate TOPOLOGY")), "{error}");
            assert!(refusal(&format!("maple run builtin:flood --emulate ring:4 {option}")).is_none());
        }
        assert!(refusal("maple run builtin:flood").is_none());
        assert!(refusal("maple run --watch").is_some_and(|error| error.to_string().contains("a policy is missing")));
        let member = "maple run builtin:flood --cluster etcd://a,b/campus --name n1";
        assert!(refusal(member).is_none());
        for alone in ["--state f", "--record f", "--snoop igmp", "--takeover", "--emulate ring:4", "--resume-applied"] {
            let error = refusal(&format!("{member} {alone}")).expect(alone).to_string();
            let name = alone.split(' ').next().expect("it has a name");
            assert!(error.contains(&format!("the argument --cluster cannot be used with {name}")), "{error}");
        }
        assert!(refusal("maple emulate ring:4 --rate 5").is_some());
        assert!(refusal("maple emulate ring:4 --rate 5 --traffic 1s").is_none());
    }
}
