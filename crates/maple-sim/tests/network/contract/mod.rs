//! The contract, as a property: the network behaves as if f ran afresh on every packet that enters it.
//!
//! Random policies decide over random packets in random networks of two to four switches, served by one or two shards.
//! Meanwhile links fail, hosts move, state is written, rules are invalidated or deleted by others, tables fill up and
//! switches restart. All delays are random. The copies of a packet that leave the network must be exactly those that f,
//! run from scratch, gives in *one* of the states that held between the last moment of rest before the packet entered
//! and the first one after it. If something on its way breaks (a link, a switch) or a host moves, copies may be
//! missing, but none may leave elsewhere, changed or twice.

mod case;
mod connections;
mod explained;
mod explored;
mod guards;
mod play;
mod rest;
mod shape;
mod tally;

use maple_sim::seeds::Seeds;

use case::Case;
use tally::Tally;

/// The number of cases of all tests together that are the same in each run.
const FIXED: u64 = 4_000;
/// The number of fresh cases of all tests together.
const FRESH: u64 = 1_000;
/// The sum of the tests' shares.
const SHARES: u64 = 38;

#[test]
fn the_network_behaves_as_if_the_policy_ran_on_every_packet() {
    play_all(10, Case::generate, |all| {
        assert_mostly_exact(all);
        let reported = [all.agreed, all.alternatives];
        assert!(
            reported.iter().all(|count| count * 10 > all.explained),
            "explanations must have something to say: {all:?}"
        );
    });
}

#[test]
fn the_network_behaves_so_too_where_routes_with_equal_headers_meet() {
    play_all(4, Case::of_routes_that_meet, |all| {
        assert!(all.labelled > all.cases && all.refused * 20 > all.cases, "labels must be used, and refused: {all:?}");
    });
}

#[test]
fn the_network_behaves_so_too_under_constraints() {
    play_all(2, Case::of_guards, |all| {
        assert!(all.violations * 20 > all.exact, "constraints must be violated: {all:?}");
        assert!(all.delivered * 2 > all.exact, "and satisfied: {all:?}");
    });
}

#[test]
fn the_network_behaves_so_too_while_policies_are_reloaded() {
    play_all(4, Case::of_reloads, |all| {
        assert_mostly_exact(all);
        assert!(all.foreseen * 40 > all.cases, "reloads must be compared with their rehearsals: {all:?}");
    });
}

#[test]
fn the_network_behaves_so_too_while_the_controller_restarts() {
    play_all(4, Case::of_restarts, assert_carried_by_rules);
}

#[test]
fn the_network_behaves_so_too_while_switches_have_no_control_connection() {
    play_all(4, Case::of_lost_connections, |all| {
        assert!(all.exact * 4 > all.lossy, "packets must be checked exactly too: {all:?}");
        assert_carried_by_rules(all);
    });
}

#[test]
fn the_network_behaves_so_too_where_many_flows_share_links() {
    play_all(1, Case::of_flows_that_share_links, |all| {
        assert!(all.labelled > all.cases, "labels must be used: {all:?}");
    });
}

#[test]
fn the_network_behaves_so_too_while_what_f_looks_up_changes() {
    play_all(4, Case::of_look_ups, |all| {
        assert!(all.look_ups > 4 * all.cases, "rules of look-ups must be used: {all:?}");
        assert_mostly_exact(all);
    });
}

#[test]
fn the_network_behaves_so_too_while_hosts_take_addresses_over() {
    play_all(2, Case::of_bindings, |all| {
        assert!(all.look_ups > 2 * all.cases, "rules of look-ups must be used: {all:?}");
        assert_mostly_exact(all);
    });
}

#[test]
fn the_network_behaves_so_too_with_slices() {
    play_all(3, |seed| Case { sliced: true, ..Case::generate(seed) }, assert_mostly_exact);
}

/// A case that a hunt has found: packets of one turn, of which the first is the first to look up, at a switch with too
/// few rules for the keys.
#[test]
fn look_ups_lowered_while_packets_are_decided_are_in_no_trace_of_other_packets() {
    let played = Case { open_routes: true, ..Case::of_reloads(934_288_235_516) }.play();
    assert!(played.is_ok(), "{played:?}");
}

/// A case that a run has found: a switch comes back empty with less room than keys, leaves and labels want.
#[test]
fn a_switch_that_comes_back_full_sends_what_no_rule_takes_to_the_controller() {
    let played = Case::of_lost_connections(360_545_239_427).play();
    assert!(played.is_ok(), "{played:?}");
}

/// A case that a hunt has found: a leaf that f has decided again joins a route that another leaf is on, whose answer is
/// of the same runs.
#[test]
fn a_leaf_that_joins_a_route_may_end_one_that_is_decided_with_it() {
    let played = Case::of_bindings(878_142_102_575).play();
    assert!(played.is_ok(), "{played:?}");
}

/// A case that a hunt has found: a full switch refuses a leaf's rule while a label that is in use waits for packets
/// from a further port.
#[test]
fn a_refused_rule_takes_no_label_from_packets_under_way() {
    let played = Case::of_bindings(49_550_110_362).play();
    assert!(played.is_ok(), "{played:?}");
}

fn assert_mostly_exact(all: &Tally) {
    assert!(all.exact > all.lossy, "most packets must be checked exactly: {all:?}");
    assert_carried_by_rules(all);
}

fn assert_carried_by_rules(all: &Tally) {
    assert!(all.packet_ins * 5 < (all.exact + all.lossy) * 4, "the rules must carry packets too: {all:?}");
}

/// Names a case in which something panics.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("MAPLE_SEED={}", self.0);
        }
    }
}

/// Plays a test's share of the cases, and checks what the fixed ones covered.
fn play_all(share: u64, generate: impl Fn(u64) -> Case, covers: impl Fn(&Tally)) {
    let Seeds { fixed, fresh } = Seeds::share(|all| (all * share).div_ceil(SHARES), FIXED, FRESH);
    let play = |seed: u64| {
        let case = generate(seed);
        let _named = Named(seed);
        case.play().unwrap_or_else(|error| {
            let small = case.shrunk();
            let error = small.play().err().unwrap_or(error);
            panic!("MAPLE_SEED={seed}: {error}\n{small}");
        })
    };
    if !fixed.is_empty() {
        let all = fixed.map(play).sum();
        println!("{all:?}");
        covers(&all);
    }
    for seed in fresh {
        play(seed);
    }
}
