//! test
use pyo3::prelude::*;
/// x
#[pyclass(frozen)]
pub struct A { x: u32 }
macro_rules! g { ($($n:ident $d:literal),*) => {
#[pymethods]
impl A {
  $( #[doc=$d] #[getter] fn $n(&self) -> u32 { self.x } )*
}
}}
g!(foo "Foo doc", bar "Bar doc");
#[pymodule]
mod _maple { #[pymodule_export] use super::A; }
