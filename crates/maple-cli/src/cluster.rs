//! `maple cluster`: changes who is master of several controllers.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use maple_controller::control::socket::{ClusterRequest, Request, ask};

use crate::options::controller_to_ask;
use crate::output::{json_text, print_line};
use crate::show::hint;

/// `maple cluster`.
#[derive(Debug, Args)]
pub struct ClusterCommandArgs {
    #[command(subcommand)]
    command: ClusterCommand,
    /// The controller's Unix socket [default: as in `maple run`]
    #[arg(long, value_name = "PATH", global = true)]
    control: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum ClusterCommand {
    /// Let another controller become master, and say which one did; ask the master
    StepDown,
}

/// Runs `maple cluster`.
///
/// # Errors
/// If the controller does not answer, or refuses.
pub fn main(args: ClusterCommandArgs) -> anyhow::Result<u8> {
    let request = match args.command {
        ClusterCommand::StepDown => ClusterRequest::StepDown,
    };
    let answer = ask(&*controller_to_ask(args.control, None), &Request::Cluster(request)).map_err(hint)?;
    if args.json {
        print_line(json_text(&answer));
    } else {
        print_line(format_args!("{} is master", answer["master"].as_str().unwrap_or_default()));
    }
    Ok(0)
}
