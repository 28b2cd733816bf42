//! Tests of the requests that a switch gets, and of what its answers mean.

use maple_wire::msg::ErrorMsg;

use super::*;

fn role(role: u32, generation_id: u64) -> Message {
    Message::RoleRequest(Role { role, generation_id })
}

fn reply(role: u32, generation_id: u64) -> Message {
    Message::RoleReply(Role { role, generation_id })
}

fn nicira(kind: u32, role: u32) -> Message {
    let body = [kind, role].iter().flat_map(|word| word.to_be_bytes()).collect();
    Message::Experimenter(Experimenter { id: Experimenter::NICIRA, body })
}

fn error((kind, code): (u16, u16)) -> Message {
    Message::Error(ErrorMsg { kind, code, data: Vec::new() })
}

/// Returns a fence that is master in generation 5.
fn master() -> Fence {
    let (mut fence, ask) = Fence::new(Version::Of13, Some(3), Some(5));
    assert_eq!(ask, [role(Role::MASTER, 5)]);
    assert_eq!(fence.mastery(), None, "it has only asked");
    assert_eq!(fence.on_message(&reply(Role::MASTER, 5), false), (vec![], Some(FenceChange::Master(5))));
    assert_eq!(fence.mastery(), Some(5));
    fence
}

#[test]
fn a_standby_asks_to_be_slave_before_anything_else_in_the_latest_generation() {
    let (mut fence, ask) = Fence::new(Version::Of13, Some(3), None);
    assert_eq!(ask, [role(Role::SLAVE, 3)]);
    assert_eq!(fence.on_message(&reply(Role::SLAVE, 3), false), (vec![], None));
    assert_eq!(fence.lead(7), (vec![role(Role::MASTER, 7)], None));
    assert_eq!(fence.on_message(&reply(Role::MASTER, 7), false).1, Some(FenceChange::Master(7)));
}

#[test]
fn a_fence_without_a_generation_asks_the_switch_for_it() {
    for (seen, taken) in [(12, 12), (u64::MAX, 0)] {
        let (mut fence, ask) = Fence::new(Version::Of13, None, None);
        assert_eq!(ask, [role(Role::NOCHANGE, 0)]);
        let (ask, change) = fence.on_message(&reply(Role::EQUAL, seen), false);
        assert_eq!((ask, change), (vec![role(Role::SLAVE, taken)], None));
    }
}

#[test]
fn a_grant_counts_as_the_answer_to_the_latest_request_only() {
    let (mut fence, _) = Fence::new(Version::Of13, Some(3), Some(5));
    fence.follow(Some(6));
    assert_eq!(fence.on_message(&reply(Role::MASTER, 5), false), (vec![], None), "it has followed since");
    assert_eq!(fence.on_message(&reply(Role::SLAVE, 6), false), (vec![], None));
    fence.lead(7);
    fence.lead(9);
    assert_eq!(fence.on_message(&reply(Role::MASTER, 7), false), (vec![], None));
    assert_eq!(fence.on_message(&reply(Role::MASTER, 9), false).1, Some(FenceChange::Master(9)));
}

#[test]
fn a_master_in_a_new_generation_is_none_until_the_switch_has_granted_it() {
    let mut fence = master();
    assert_eq!(fence.lead(5), (vec![], None), "nothing new");
    assert_eq!(fence.lead(8), (vec![role(Role::MASTER, 8)], Some(FenceChange::Lost)));
    assert_eq!(fence.mastery(), None);
}

#[test]
fn whatever_says_that_another_one_is_master_ends_the_mastery() {
    let mut body = Vec::new();
    for word in [Role::ONF_STATUS, Role::SLAVE, 0, 0, 6] {
        body.extend(word.to_be_bytes());
    }
    let status = Message::Experimenter(Experimenter { id: Experimenter::ONF, body });
    for message in [status, error(IS_SLAVE)] {
        let mut fence = master();
        assert_eq!(fence.on_message(&message, false), (vec![], Some(FenceChange::Lost)));
        assert_eq!(fence.on_message(&message, false), (vec![], None));
        assert_eq!(fence.mastery(), None);
    }
    let mut fence = master();
    assert_eq!(fence.follow(Some(6)), (vec![role(Role::SLAVE, 6)], Some(FenceChange::Lost)));
    assert_eq!(fence.follow(Some(7)), (vec![], None));
    // Other errors say nothing of roles.
    for other in [(1, 5), (5, 1), STALE] {
        let mut fence = master();
        assert_eq!(fence.on_message(&error(other), false), (vec![], None));
        assert_eq!(fence.mastery(), Some(5));
    }
}

#[test]
fn a_master_that_is_overtaken_hears_by_which_generation() {
    let (mut fence, _) = Fence::new(Version::Of13, None, Some(5));
    let (ask, change) = fence.on_message(&error(STALE), true);
    assert_eq!((ask, change), (vec![role(Role::NOCHANGE, 0)], None));
    let (ask, change) = fence.on_message(&reply(Role::EQUAL, 9), false);
    assert_eq!((ask, change), (vec![], Some(FenceChange::Overtaken(9))));
    assert_eq!(fence.mastery(), None);
    assert_eq!(fence.follow(None).0, [role(Role::SLAVE, 9)]);
}

#[test]
fn a_standby_whose_generation_is_too_old_takes_that_of_the_switch() {
    let (mut fence, _) = Fence::new(Version::Of13, Some(3), None);
    assert_eq!(fence.on_message(&error(STALE), true).0, [role(Role::NOCHANGE, 0)]);
    assert_eq!(fence.on_message(&reply(Role::EQUAL, 9), false).0, [role(Role::SLAVE, 9)]);
}

#[test]
fn a_question_for_the_generation_does_not_hide_a_grant() {
    let (mut fence, _) = Fence::new(Version::Of13, Some(3), None);
    fence.lead(12);
    assert_eq!(fence.on_message(&error(STALE), true).0, [role(Role::NOCHANGE, 0)], "it was too late to be slave");
    assert_eq!(fence.on_message(&reply(Role::MASTER, 12), false).1, Some(FenceChange::Master(12)));
    assert_eq!(fence.on_message(&reply(Role::MASTER, 12), false), (vec![], None));
    assert_eq!(fence.mastery(), Some(12));
}

#[test]
fn a_switch_without_roles_makes_nobody_master() {
    let (mut fence, _) = Fence::new(Version::Of13, None, Some(5));
    assert_eq!(fence.on_message(&error((1, 1)), true), (vec![], Some(FenceChange::Unsupported)));
    assert_eq!(fence.mastery(), None);
}

#[test]
fn openflow_1_0_uses_roles_of_nicira_without_generations() {
    let (mut fence, ask) = Fence::new(Version::Of10, None, None);
    assert_eq!(ask, [nicira(10, 2)]);
    assert_eq!(fence.on_message(&nicira(11, 2), false), (vec![], None));
    assert_eq!(fence.lead(7).0, [nicira(10, 1)]);
    assert_eq!(fence.on_message(&nicira(11, 1), false).1, Some(FenceChange::Master(7)));
    assert_eq!(fence.on_message(&error(EPERM), false).1, Some(FenceChange::Lost));
    // Whatever else experimenters say.
    for message in [nicira(12, 1), Message::Experimenter(Experimenter { id: Experimenter::NICIRA, body: vec![1] })] {
        assert_eq!(fence.on_message(&message, false), (vec![], None));
    }
}

#[test]
fn a_master_that_somebody_without_a_generation_has_unseated_asks_again() {
    let mut fence = master();
    assert_eq!(fence.ask_again(), [], "it is master");
    assert_eq!(fence.on_message(&error(IS_SLAVE), false).1, Some(FenceChange::Lost));
    assert_eq!(fence.ask_again(), [role(Role::MASTER, 5)]);
    assert_eq!(fence.ask_again(), [], "the answer is to come");
    assert_eq!(fence.on_message(&reply(Role::MASTER, 5), false).1, Some(FenceChange::Master(5)));
    // Whoever follows asks for nothing.
    fence.follow(Some(6));
    assert_eq!(fence.on_message(&reply(Role::SLAVE, 6), false), (vec![], None));
    assert_eq!(fence.ask_again(), []);
}
