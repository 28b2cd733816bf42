//! Region classes: nodes of the tree that stand for the same packets, as far as a match can express it.

use std::sync::Arc;

use crate::trace::Region;
use crate::tree::NodeId;

/// The name of a class while it has nodes.
pub(super) type ClassId = u32;

/// The class of all nodes whose packets the switch can't tell apart. It has no entries.
pub(super) const UNMATCHABLE: ClassId = 0;

/// The classes of a tree.
#[derive(Clone, Debug)]
pub(super) struct RegionClasses {
    classes: Vec<RegionClass>,
    free: Vec<ClassId>,
}

/// Nodes that stand for the same region: a node, and the no-sides below it, because a match can't state that a test
/// failed.
#[derive(Clone, Debug)]
struct RegionClass {
    /// The test or `V` node above the class.
    above: Option<NodeId>,
    /// `None` if the class is one leaf under a `V` node: the `V` node's region and the value determine it.
    region: Option<Arc<Region>>,
    /// Whether every packet of the region gets to a forwarding leaf, or has a barrier entry of the class's own tests.
    is_complete: bool,
    nodes: u32,
}

impl RegionClasses {
    /// Creates the classes, of which only that of unmatchable packets exists.
    pub(super) fn new() -> RegionClasses {
        let region = Some(Arc::new(Region::any()));
        let unmatchable = RegionClass { above: None, region, is_complete: false, nodes: 1 };
        RegionClasses { classes: vec![unmatchable], free: Vec::new() }
    }

    /// Creates a class without nodes. `region` may be left out for a leaf under a `V` node.
    pub(super) fn create(&mut self, above: Option<NodeId>, region: Option<Arc<Region>>) -> ClassId {
        let class = RegionClass { above, region, is_complete: false, nodes: 0 };
        match self.free.pop() {
            Some(id) => {
                self.classes[id as usize] = class;
                id
            }
            None => {
                self.classes.push(class);
                ClassId::try_from(self.classes.len() - 1).expect("a tree has fewer than 2^32 classes")
            }
        }
    }

    /// Counts one more node of a class.
    pub(super) fn add_node(&mut self, class: ClassId) {
        self.classes[class as usize].nodes += 1;
    }

    /// Removes a node. The class is removed with its last node.
    pub(super) fn remove_node(&mut self, class: ClassId) {
        let nodes = &mut self.classes[class as usize].nodes;
        *nodes -= 1;
        if *nodes == 0 {
            self.free.push(class);
        }
    }

    /// Forgets the region of a class that is one leaf under a `V` node.
    pub(super) fn drop_region(&mut self, class: ClassId) {
        if class != UNMATCHABLE {
            self.classes[class as usize].region = None;
        }
    }

    /// Returns the region of a class, unless the class is one leaf under a `V` node.
    pub(super) fn stored_region(&self, class: ClassId) -> Option<&Arc<Region>> {
        self.classes[class as usize].region.as_ref()
    }

    /// Returns the region of a class that is more than a leaf under a `V` node.
    pub(super) fn region(&self, class: ClassId) -> &Arc<Region> {
        self.stored_region(class).expect("only a leaf's class does without its region")
    }

    /// Returns the test or `V` node above a class.
    pub(super) fn above(&self, class: ClassId) -> Option<NodeId> {
        self.classes[class as usize].above
    }

    pub(super) fn is_complete(&self, class: ClassId) -> bool {
        self.classes[class as usize].is_complete
    }

    pub(super) fn set_complete(&mut self, class: ClassId, is_complete: bool) {
        self.classes[class as usize].is_complete = is_complete;
    }

    /// Returns the memory of a class, to be prefetched.
    pub(super) fn memory(&self, class: ClassId) -> &impl Sized {
        &self.classes[class as usize]
    }
}
