//! The programs that people run, and the page that describes their command line.

mod lab;
mod programs;
mod reference;
