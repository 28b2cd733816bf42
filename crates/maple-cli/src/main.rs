//! The `maple` command without Python: built-in policies, emulated networks, decoding, questions to a controller.

use std::process::ExitCode;

fn main() -> ExitCode {
    maple::main_with(std::env::args_os(), None).into()
}
