//! `maple-bench`, with policies in Rust.

use std::process::ExitCode;

use maple_bench::Rust;
use maple_heap::Heap;

#[global_allocator]
static HEAP: Heap = Heap;

fn main() -> ExitCode {
    maple_bench::main(std::env::args_os(), &Rust).into()
}
