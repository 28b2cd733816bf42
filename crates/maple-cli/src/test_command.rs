//! `maple test`: runs the tests of policies in Python.

use std::ffi::OsString;

use anyhow::anyhow;
use clap::Args;

use crate::policy::PolicyLoader;
use crate::usage_error::usage_error;

/// `maple test`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct TestArgs {
    /// Policies, test files or folders [default: the working directory]; and options of pytest, such as `-k NAME`
    #[arg(value_name = "PATH… OPTIONS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// Runs the tests. Returns pytest's exit status.
///
/// # Errors
/// If this `maple` can't run Python, or if pytest is missing.
pub fn main(args: &TestArgs, loader: Option<&dyn PolicyLoader>) -> anyhow::Result<u8> {
    let missing = "test is for policies in Python, and this `maple` was built without it; \
                   tests of policies in Rust run with cargo test";
    loader.ok_or_else(|| usage_error(anyhow!(missing)))?.run_tests(&args.arguments)
}
