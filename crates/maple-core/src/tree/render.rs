//! A tree as text, for tests and people.

use std::fmt::Write;

use super::{Branch, Node, NodeId, Tree};
use crate::trace::text;

impl Tree {
    /// Renders the tree as indented text, one node a line:
    ///
    /// ```text
    /// T tcp_dst=22
    ///   yes: L 3
    ///   no: V eth_dst
    ///     00:00:00:00:00:02: L 1
    /// ```
    ///
    /// Unexplored sides of tests are shown as `Ω`, reads that f did not make as `(specialised)`. No-sides have their
    /// test's own indentation, so that a chain of tests reads from top to bottom.
    pub fn render(&self) -> String {
        let mut out = String::new();
        // What is still to be written: the indentation, the label of the branch, and the node.
        let mut open = vec![(0, String::new(), self.root())];
        while let Some((indent, label, node)) = open.pop() {
            let _ = writeln!(out, "{:indent$}{label}{}", "", self.headline(node));
            let Some(node) = node else { continue };
            open.extend(self.below(indent + 2, node).into_iter().rev());
        }
        out
    }

    fn headline(&self, node: Option<NodeId>) -> String {
        match node.map(|node| self.node(node)) {
            None => "Ω".to_string(),
            Some(Node::Leaf(leaf)) => format!("L {}", leaf.0),
            Some(Node::Value(values)) => {
                let is_whole = values.mask == values.field.full_mask();
                let mask = if is_whole { String::new() } else { format!("/{:#x}", values.mask) };
                let is_specialised = node.is_some_and(|node| self.is_extra_read(node));
                format!("V {}{mask}{}", values.field, if is_specialised { " (specialised)" } else { "" })
            }
            Some(Node::Test { cond, .. }) => format!("T {cond}"),
        }
    }

    fn below(&self, indent: usize, node: NodeId) -> Vec<(usize, String, Option<NodeId>)> {
        match self.node(node) {
            Node::Leaf(_) => Vec::new(),
            Node::Value(values) => {
                let line = |(branch, child)| match branch {
                    Branch::Value(value) => (indent, format!("{}: ", text(values.field, value)), Some(child)),
                    Branch::Outcome(_) => unreachable!("a value node branches by value"),
                };
                self.node(node).branches().into_iter().map(line).collect()
            }
            Node::Test { yes, no, .. } => {
                vec![(indent, "yes: ".to_string(), *yes), (indent - 2, "no: ".to_string(), *no)]
            }
        }
    }
}
