//! A tree as text, for tests and people.

use std::fmt::Write;

use maple_wire::Field;

use super::{Node, NodeId, Tree, TreeBranch};
use crate::trace::{ReadMetadata, field_value_text};

/// A function from bits of the metadata to their question and its answer; `None` if these are not known.
pub(crate) type MetadataText<'a> = &'a dyn Fn(ReadMetadata) -> Option<(String, String)>;

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
        self.render_with(&|_| None)
    }

    /// Renders the tree as [`Tree::render`] does. `metadata` names what bits of the metadata ask, and what they say;
    /// bits that it does not know are shown as numbers.
    pub fn render_with(&self, metadata: MetadataText<'_>) -> String {
        let mut out = String::new();
        // What is still to be written: the indentation, the label of the branch, and the node.
        let mut open = vec![(0, String::new(), self.root())];
        while let Some((indent, label, node)) = open.pop() {
            let _ = writeln!(out, "{:indent$}{label}{}", "", self.headline(node, metadata));
            let Some(node) = node else { continue };
            open.extend(self.below(indent + 2, node, metadata).into_iter().rev());
        }
        out
    }

    fn headline(&self, node: Option<NodeId>, metadata: MetadataText<'_>) -> String {
        match node.map(|node| self.node(node)) {
            None => "Ω".to_string(),
            Some(Node::Leaf(leaf)) => format!("L {}", leaf.0),
            Some(Node::Value(values)) => {
                let is_whole = values.mask == values.field.full_mask();
                let mask = if is_whole { String::new() } else { format!("/{:#x}", values.mask) };
                let first = node.and_then(|node| self.node(node).branches().into_iter().next());
                let named = first.and_then(|(branch, _)| branch_text(values.field, values.mask, branch, metadata));
                let name = named.map_or_else(|| format!("{}{mask}", values.field), |(question, _)| question);
                let is_specialised = node.is_some_and(|node| self.is_extra_read(node));
                format!("V {name}{}", if is_specialised { " (specialised)" } else { "" })
            }
            Some(Node::Test { cond, .. }) => format!("T {cond}"),
        }
    }

    fn below(&self, indent: usize, node: NodeId, metadata: MetadataText<'_>) -> Vec<(usize, String, Option<NodeId>)> {
        match self.node(node) {
            Node::Leaf(_) => Vec::new(),
            Node::Value(values) => {
                let line = |(branch, child)| {
                    let named = branch_text(values.field, values.mask, branch, metadata).map(|(_, answer)| answer);
                    let answer = named.unwrap_or_else(|| match branch {
                        TreeBranch::Value(value) => field_value_text(values.field, value),
                        TreeBranch::Outcome(_) => unreachable!("a value node branches by value"),
                    });
                    (indent, format!("{answer}: "), Some(child))
                };
                self.node(node).branches().into_iter().map(line).collect()
            }
            Node::Test { yes, no, .. } => {
                vec![(indent, "yes: ".to_string(), *yes), (indent - 2, "no: ".to_string(), *no)]
            }
        }
    }
}

/// Returns the question of a value node and the answer of a branch, if the node reads metadata.
fn branch_text(field: Field, mask: u128, branch: TreeBranch, metadata: MetadataText<'_>) -> Option<(String, String)> {
    match (field, branch) {
        (Field::Metadata, TreeBranch::Value(value)) => {
            metadata(ReadMetadata { value: value as u64, mask: mask as u64 })
        }
        _ => None,
    }
}
