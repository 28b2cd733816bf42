//! The `maple` command without Python: built-in policies, emulated networks, decoding, queries to a controller.

use std::process::ExitCode;

use maple_heap::Heap;

#[global_allocator]
static HEAP: Heap = Heap;

fn main() -> ExitCode {
    maple_cli::main_with(std::env::args_os(), None).into()
}
