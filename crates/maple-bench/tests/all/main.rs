//! Benchmarks as commands: what they find, on sets of rules and on small networks. None asserts a time.

#[path = "../../../../tests/skip.rs"]
mod skip;

mod on_sockets;
mod rules;

/// The programs' allocator, which says what tables take.
#[global_allocator]
static HEAP: maple_heap::Heap = maple_heap::Heap;
