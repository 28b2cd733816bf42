//! The programs that people run, and the page that describes their command line.

mod emulated;
mod output;
mod programs;
mod reference;
