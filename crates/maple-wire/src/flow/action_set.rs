//! The action set: the actions of write-actions, done at the pipeline's end in a fixed order (1.3 §5.10).

use super::Action;

/// An action set: at most one action of each kind, and one set-field for each field.
///
/// ```
/// use maple_wire::{Action, ActionSet, PortNo};
///
/// let mut set = ActionSet::default();
/// set.write(&[Action::output(PortNo(1)), Action::PopVlan]);
/// set.write(&[Action::output(PortNo(2))]);
/// assert_eq!(set.in_order(), [Action::PopVlan, Action::output(PortNo(2))]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ActionSet {
    actions: Vec<Action>,
}

impl ActionSet {
    /// Empties the set.
    pub fn clear(&mut self) {
        self.actions.clear();
    }

    /// Adds actions; each replaces one of its kind.
    pub fn write(&mut self, actions: &[Action]) {
        for action in actions {
            self.actions.retain(|old| !same_kind(old, action));
            self.actions.push(action.clone());
        }
    }

    /// Returns the actions in the order of 1.3 §5.10, without an output beside a group: the group decides.
    pub fn in_order(&self) -> Vec<Action> {
        let has_group = self.actions.iter().any(|a| matches!(a, Action::Group(_)));
        let mut actions: Vec<Action> =
            self.actions.iter().filter(|a| !(has_group && rank(a) == OUTPUT_RANK)).cloned().collect();
        actions.sort_by_key(rank);
        actions
    }
}

const OUTPUT_RANK: u8 = 10;

fn rank(action: &Action) -> u8 {
    match action {
        Action::CopyTtlIn => 0,
        Action::PopVlan | Action::PopMpls(_) | Action::PopPbb => 1,
        Action::PushMpls(_) => 2,
        Action::PushPbb(_) => 3,
        Action::PushVlan(_) => 4,
        Action::CopyTtlOut => 5,
        Action::DecNwTtl | Action::DecMplsTtl => 6,
        Action::SetQueue(_) => 8,
        Action::Group(_) => 9,
        Action::Output { .. } | Action::Enqueue { .. } => OUTPUT_RANK,
        _ => 7,
    }
}

fn same_kind(a: &Action, b: &Action) -> bool {
    match (a, b) {
        (Action::SetField(a), Action::SetField(b)) => a.field == b.field,
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use crate::flow::Constraint;
    use crate::port::PortNo;

    #[test]
    fn later_actions_of_a_kind_replace_earlier_ones_and_order_is_fixed() {
        let mut set = ActionSet::default();
        let vlan = |vid| Action::SetField(Constraint::exact(Field::VlanVid, vid));
        set.write(&[Action::output(PortNo(1)), vlan(0x1005), Action::PushVlan(0x8100), Action::PopVlan]);
        set.write(&[vlan(0x1006), Action::output(PortNo(2))]);
        let expected = vec![Action::PopVlan, Action::PushVlan(0x8100), vlan(0x1006), Action::output(PortNo(2))];
        assert_eq!(set.in_order(), expected);
    }

    #[test]
    fn a_group_in_the_set_takes_the_place_of_the_output() {
        let mut set = ActionSet::default();
        set.write(&[Action::output(PortNo(1)), Action::Group(3)]);
        assert_eq!(set.in_order(), vec![Action::Group(3)]);
        set.clear();
        assert!(set.in_order().is_empty());
    }
}
