//! The laboratory by what people see of it: the words of tests, and the contract that whole networks keep.

mod contract;
mod look_ups;
mod words;
