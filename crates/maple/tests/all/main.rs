//! The library as others see it: what it depends on, and the examples of its items.

mod dependencies;
mod examples;
mod exports;
