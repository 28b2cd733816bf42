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
mod generate;
mod guards;
mod play;

use case::Case;
use play::Tally;

#[test]
fn the_network_behaves_as_if_the_policy_ran_on_every_packet() {
    let all = play_all(10_000, Case::generate);
    let sent = all.exact + all.lossy;
    assert!(all.exact * 2 > sent, "most packets must be checked exactly: {all:?}");
    assert!(all.packet_ins * 5 < sent * 4, "the rules must carry packets too: {all:?}");
    let told = [all.agreed, all.alternatives];
    assert!(told.iter().all(|count| count * 10 > all.explained), "explanations must have something to say: {all:?}");
}

#[test]
fn the_network_behaves_so_too_where_routes_with_equal_headers_meet() {
    let cases = 4_000;
    let all = play_all(cases, Case::of_routes_that_meet);
    assert!(all.labelled > cases && all.refused * 20 > cases, "labels must be used, and refused: {all:?}");
}

#[test]
fn the_network_behaves_so_too_under_constraints() {
    let all = play_all(2_000, Case::of_guards);
    assert!(all.violations * 20 > all.exact, "constraints must be violated: {all:?}");
    assert!(all.delivered * 2 > all.exact, "and satisfied: {all:?}");
}

#[test]
fn the_network_behaves_so_too_while_policies_are_reloaded() {
    let all = play_all(4_000, Case::of_reloads);
    let sent = all.exact + all.lossy;
    assert!(all.exact * 2 > sent, "most packets must be checked exactly: {all:?}");
    assert!(all.packet_ins * 5 < sent * 4, "the rules must carry packets too: {all:?}");
}

#[test]
fn the_network_behaves_so_too_while_the_controller_restarts() {
    let all = play_all(4_000, Case::of_restarts);
    assert!(all.packet_ins * 5 < (all.exact + all.lossy) * 4, "the rules must carry packets too: {all:?}");
}

#[test]
fn the_network_behaves_so_too_while_switches_have_no_control_connection() {
    let all = play_all(4_000, Case::of_lost_connections);
    assert!(all.exact * 4 > all.lossy, "packets must be checked exactly too: {all:?}");
    assert!(all.packet_ins * 5 < (all.exact + all.lossy) * 4, "the rules must carry packets too: {all:?}");
}

#[test]
fn the_network_behaves_so_too_where_many_flows_share_links() {
    let cases = 1_000;
    let all = play_all(cases, Case::of_flows_that_share_links);
    assert!(all.labelled > cases, "labels must be used: {all:?}");
}

#[test]
fn the_network_behaves_so_too_with_slices() {
    let all = play_all(3_000, |seed| Case { sliced: true, ..Case::generate(seed) });
    let sent = all.exact + all.lossy;
    assert!(all.exact * 2 > sent, "most packets must be checked exactly: {all:?}");
    assert!(all.packet_ins * 5 < sent * 4, "the rules must carry packets too: {all:?}");
}

/// Plays many cases, and sums up what they covered.
fn play_all(cases: u64, generate: impl Fn(u64) -> Case) -> Tally {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}?")))
    };
    let (first, cases) = (number("CONTRACT_SEED", 1), number("CONTRACT_CASES", cases));
    println!("seeds {first} to {}", first + cases - 1);
    let mut all = Tally::default();
    for seed in first..first + cases {
        let case = generate(seed);
        match case.play() {
            Ok(tally) => all += tally,
            Err(error) => {
                let small = case.shrunk();
                let error = small.play().err().unwrap_or(error);
                let steps: Vec<String> = small.steps.iter().map(|step| format!("  {step:?}\n")).collect();
                let Case { shape, policy, other, guards, labels, track_hosts, compiler, capacity, .. } = &small;
                let options =
                    format!("{labels:?}, hosts tracked: {track_hosts}, compiler {compiler:?}, capacity {capacity:?}");
                let other = other.iter().map(|other| format!("or {other}\n")).collect::<String>();
                panic!("seed {seed}: {error}\n{shape:?}\n{policy}\n{other}{guards:?}\n{options}\n{}", steps.concat());
            }
        }
    }
    println!("{all:?}");
    all
}
