//! Bundles: all of their flow-mods are obeyed, or none.

use maple_wire::msg::{BundleAdd, BundleControl};

use super::*;

const FLAGS: u16 = 3;

fn tested() -> TestSwitch {
    TestSwitch::with(Version::Of13, SwitchOptions { n_tables: 1, table_size: 2, ..SwitchOptions::default() })
}

/// Sends a request. Returns the answers in short: the kind of an answer about bundles, or an error's type and code.
fn ask(tested: &mut TestSwitch, message: Message) -> Vec<String> {
    let short = |outgoing: Outgoing| match outgoing {
        Outgoing::Message { message: Message::BundleControl(control), .. } => format!("{}", control.kind),
        Outgoing::Message { message: Message::Error(error), .. } => format!("{}/{}", error.kind, error.code),
        other => format!("{other:?}"),
    };
    tested.say(message).into_iter().map(short).collect()
}

fn control(tested: &mut TestSwitch, kind: u16) -> Vec<String> {
    ask(tested, Message::BundleControl(BundleControl { bundle: 1, kind, flags: FLAGS }))
}

fn add(tested: &mut TestSwitch, line: &str) -> Vec<String> {
    let message = Box::new(Message::FlowMod(flow_mod(line)));
    ask(tested, Message::BundleAdd(BundleAdd { bundle: 1, flags: FLAGS, message }))
}

fn priorities(tested: &TestSwitch) -> Vec<u16> {
    tested.switch.tables()[0].rules().iter().map(|rule| rule.priority).collect()
}

#[test]
fn a_bundle_is_obeyed_when_it_is_committed() {
    let mut tested = tested();
    tested.run("add 1 -> 1");
    assert_eq!(control(&mut tested, BundleControl::OPEN), ["1"]);
    for line in ["add 3 -> 2", "add 1 -> 3", "delete 9"] {
        assert_eq!(add(&mut tested, line), [""; 0], "{line}");
    }
    assert_eq!((priorities(&tested), control(&mut tested, BundleControl::COMMIT)), (vec![1], vec!["5".to_owned()]));
    assert_eq!(control(&mut tested, BundleControl::COMMIT), ["65535/2302"], "it is over");
}

#[test]
fn a_refused_message_leaves_everything_as_it_was() {
    let mut tested = tested();
    tested.run("add 1 -> 1");
    control(&mut tested, BundleControl::OPEN);
    for line in ["add 4 -> 1", "add 3 -> 2", "add 2 -> 3"] {
        assert_eq!(add(&mut tested, line), [""; 0], "{line}");
    }
    assert_eq!(control(&mut tested, BundleControl::COMMIT), ["5/1", "65535/2313"]);
    assert_eq!(priorities(&tested), [1]);
}

#[test]
fn invalid_requests_for_bundles_are_refused() {
    let mut tested = tested();
    assert_eq!(add(&mut tested, "add 1 -> 1"), ["65535/2302"], "no bundle is open");
    control(&mut tested, BundleControl::OPEN);
    assert_eq!(control(&mut tested, BundleControl::OPEN), ["65535/2303"]);
    assert_eq!(add(&mut tested, "add 1 table=9 -> 1"), ["5/2"]);
    assert_eq!(control(&mut tested, 44), ["65535/2306"]);
    assert_eq!(control(&mut tested, BundleControl::CLOSE), ["3"]);
    assert_eq!(add(&mut tested, "add 1 -> 1"), ["65535/2304"]);
    assert_eq!(control(&mut tested, BundleControl::DISCARD), ["7"]);
    let open = |bundle| Message::BundleControl(BundleControl { bundle, kind: BundleControl::OPEN, flags: FLAGS });
    let opened: Vec<String> = (0..20).flat_map(|bundle| ask(&mut tested, open(bundle))).collect();
    assert_eq!((&opened[15][..], &opened[16][..]), ("1", "65535/2305"), "their number is bounded");
    let options = SwitchOptions { bundles: false, ..SwitchOptions::default() };
    let mut without = TestSwitch::with(Version::Of13, options);
    assert_eq!(control(&mut without, BundleControl::OPEN), ["1/3"]);
}
