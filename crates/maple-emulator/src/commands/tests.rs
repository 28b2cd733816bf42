//! Commands on a network in simulated time whose switches flood everything, without a controller.

use maple_wire::msg::{FlowMod, FlowModCommand, Hello};
use maple_wire::{Action, Instruction, Match, Message, Version};

use super::*;

/// A network in simulated time without a controller.
pub(super) struct Alone(pub EmulatedNetwork);

impl Ground for Alone {
    fn with<R: Send + 'static>(
        &mut self,
        f: impl FnOnce(&mut EmulatedNetwork) -> R + Send + 'static,
    ) -> Result<R, CommandError> {
        Ok(f(&mut self.0))
    }

    fn pass(&mut self, span: Nanoseconds) -> Result<(), CommandError> {
        self.0.run_for(span);
        Ok(())
    }
}

/// Creates a network without loops in which every switch floods.
fn flooding(topology: &str) -> (CommandRunner, Alone) {
    let topology = Topology::parse(topology).unwrap();
    let mut network = EmulatedNetwork::new(&topology, Version::Of13);
    network.run_for(MILLISECOND);
    let flood = vec![Instruction::ApplyActions(vec![Action::output(PortNo::FLOOD)])];
    for dpid in network.dpids().collect::<Vec<_>>() {
        let mut bytes = Message::Hello(Hello { version: 4, elements: vec![] }).to_bytes(Version::Of13, 1).unwrap();
        let rule = FlowMod::new(FlowModCommand::Add, 1, Match::any(), flood.clone());
        Message::FlowMod(rule).encode(Version::Of13, 2, &mut bytes).unwrap();
        network.from_controller(dpid, &bytes).unwrap();
    }
    network.run_for(MILLISECOND);
    (CommandRunner::new(topology), Alone(network))
}

/// Runs commands. Returns their outputs, with errors after `error: `.
fn say(runner: &CommandRunner, ground: &mut Alone, lines: &str) -> String {
    let answer = |line: &str| match runner.line(ground, line) {
        Ok(text) => text,
        Err(error) => format!("error: {error}"),
    };
    lines.lines().map(str::trim).map(answer).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_session_at_the_console() {
    let (runner, mut net) = flooding("linear:100");
    assert!(say(&runner, &mut net, "h1 ping h100").contains("answered"), "a long way is not a loop");
    let (runner, mut net) = flooding("linear:3,delay=1ms");
    assert_eq!(say(&runner, &mut net, "h1 ping h2"), "h1 ping h2: answered in 4.01ms");
    assert_eq!(
        say(&runner, &mut net, "link s1 s2 delay 10ms\n h1 ping h2 3"),
        "h1 ping h2: 3 of 3 answered, after 20ms (from 20ms to 20ms)"
    );
    assert_eq!(say(&runner, &mut net, "pingall"), "pingall: 6 of 6 answered");
    assert_eq!(say(&runner, &mut net, "link s1 s2 down\n h1 ping h2"), "error: h1 ping h2: no answer to 1 request");
    assert_eq!(
        say(&runner, &mut net, "pingall"),
        "error: pingall: 2 of 6 answered; none from h1 to h2, h1 to h3, h2 to h1, h3 to h1"
    );
    assert_eq!(say(&runner, &mut net, "not h1 ping h2"), "h1 ping h2: no answer: the address of h2 was not resolved");
    assert!(say(&runner, &mut net, "not h2 ping h3").ends_with("that should not have worked"));
    assert!(say(&runner, &mut net, "show links").starts_with("s1:2     s2:2     down  delay 10ms"));
    assert_eq!(
        say(&runner, &mut net, "h1 move s3\n h1 ping h2"),
        "h1 is at port 3 of s3\nh1 ping h2: answered in 4.01ms"
    );
    assert_eq!(
        say(&runner, &mut net, "link s1 s2 up\n port s3 1 down\n not h2 ping h3").matches("no answer").count(),
        1
    );
    assert!(say(&runner, &mut net, "show rules s1").contains("actions=FLOOD"));
    assert!(say(&runner, &mut net, "switch s2 restart\n show rules").contains("s2: 0 rules"));
}

#[test]
fn a_place_is_taken_as_it_is_shown() {
    let (runner, mut net) = flooding("linear:3");
    assert!(say(&runner, &mut net, "show links").contains("s1:2     s2:2"));
    assert_eq!(
        say(&runner, &mut net, "port s1:2 down\n not h1 ping h2\n port s1:2 up\n h1 ping h2").matches("answer").count(),
        2
    );
    assert_eq!(say(&runner, &mut net, "h1 move s3:7"), "h1 is at port 7 of s3");
    assert_eq!(
        say(&runner, &mut net, "queue s1:2 1 max 1mbit\n show queues").matches("s1     port 2 queue 1").count(),
        1
    );
    assert!(say(&runner, &mut net, "h1 ping s1:2").contains("there is no host s1:2"));
    let printed = "0000000000000001";
    let spelled = [printed, "1", "0x1", "00:00:00:00:00:00:00:01"];
    for switch in spelled {
        let port_down = format!("port {switch}:2 down\n show links\n port {switch} 2 up");
        assert!(say(&runner, &mut net, &port_down).starts_with("s1:2     s2:2     s1:2 is down"), "{switch}");
        let down = format!("link {switch} 2 down\n show links\n link s2 {switch} up");
        assert!(say(&runner, &mut net, &down).starts_with("s1:2     s2:2     down"), "{switch}");
        assert_eq!(say(&runner, &mut net, &format!("h1 move {switch}:9")), format!("h1 is at port 9 of {switch}"));
        assert_eq!(say(&runner, &mut net, &format!("switch {switch} restart")), "");
    }
    assert!(say(&runner, &mut net, "port a:1 down").contains("there is no switch a; "));
    for local in ["port s1:LOCAL down", "port 0000000000000001 local down", "queue 1:LOCAL 1 max 1mbit"] {
        assert_eq!(say(&runner, &mut net, local), "error: switch 0000000000000001 has no port LOCAL", "{local}");
    }
    assert_eq!(say(&runner, &mut net, "h1 move s2:LOCAL"), "error: LOCAL is not a port number");
    for wrong in ["0", "FLOOD", "x", "0xffffffff"] {
        let error = say(&runner, &mut net, &format!("port s1 {wrong} down"));
        assert_eq!(error, format!("error: {wrong:?} is not a port: a number, or LOCAL"));
    }
}

#[test]
fn a_host_is_called_by_its_name_or_an_address() {
    let (runner, mut net) = flooding("linear:3,delay=1ms");
    for line in ["h1 ping 10.0.0.3", "h1 ping fd00::3", "h1 ping 00:00:00:00:00:03", "10.0.0.1 ping h3"] {
        assert!(say(&runner, &mut net, line).starts_with("h1 ping h3: answered in"), "{line}");
    }
    for line in ["h1 ping -c 3 h3", "h1 ping h3 -c 3", "h1 ping 10.0.0.3 3"] {
        assert!(say(&runner, &mut net, line).starts_with("h1 ping h3: 3 of 3 answered"), "{line}");
    }
    assert!(say(&runner, &mut net, "h1 ping 10.0.0.9").contains("there is no host 10.0.0.9; there are h1 to h3"));
    assert!(say(&runner, &mut net, "h1 ping 10.0.0.1").contains("h1 would talk to itself"));
    assert_eq!(say(&runner, &mut net, "10.0.0.1 move s3"), "h1 is at port 3 of s3");
}

#[test]
fn commands_about_a_controller_need_one_in_the_same_process() {
    let (runner, mut net) = flooding("linear:2");
    for line in ["explain --from h1 --to h2", "state list", "not state list"] {
        assert!(say(&runner, &mut net, line).contains("asks a controller in the same process"), "{line}");
    }
    assert_eq!(say(&runner, &mut net, "show links"), say(&runner, &mut net, "show emulated links"));
    assert!(say(&runner, &mut net, "show emulated stats").contains("nothing called stats to show"));
}

/// A network with a controller that repeats queries, and does not know `stats`.
struct Controlled(Alone);

impl Ground for Controlled {
    fn with<R: Send + 'static>(
        &mut self,
        f: impl FnOnce(&mut EmulatedNetwork) -> R + Send + 'static,
    ) -> Result<R, CommandError> {
        self.0.with(f)
    }

    fn pass(&mut self, span: Nanoseconds) -> Result<(), CommandError> {
        self.0.pass(span)
    }

    fn can_ask(&self, words: &[String]) -> Option<Result<(), CommandError>> {
        let refused = words.iter().any(|word| word == "stats").then(|| CommandError::Wrong("no stats".into()));
        Some(refused.map_or(Ok(()), Err))
    }

    fn ask(&mut self, words: &[String]) -> Result<String, CommandError> {
        Ok(words.join("|"))
    }
}

#[test]
fn a_controller_is_asked_for_what_it_knows() {
    let (runner, net) = flooding("linear:2");
    let mut net = Controlled(net);
    let mut line = |line: &str| runner.line(&mut net, line).map_err(|error| error.to_string());
    for (typed, asked) in [
        ("explain --from h1 --to h2", "explain|--from|h1|--to|h2"),
        ("state set t k '[1, 2]'", "state|set|t|k|[1, 2]"),
        ("show rules s1 --table 0", "show|rules|s1|--table|0"),
        ("show links", "show|links"),
    ] {
        assert_eq!(line(typed), Ok(asked.into()));
    }
    assert!(line("show emulated links").is_ok_and(|reported| reported.starts_with("s1:2")));
    assert_eq!(line("show queues"), Ok("none".into()));
    assert_eq!(line("show stats"), Err("no stats".into()));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "h1 ping h2\nnot show stats\n").unwrap();
    let mut reported = Vec::new();
    let done =
        run_script(&runner, &mut net, file.path().to_str().unwrap(), &mut |line: &str| reported.push(line.to_owned()));
    assert!(reported.is_empty() && matches!(done, Err(ScriptError::Wrong { line: 2, .. })), "{reported:?} {done:?}");
}

#[test]
fn words_are_completed_by_their_place() {
    let (runner, _) = flooding("linear:2");
    let after = |words: &str| runner.completions(&words.split_whitespace().collect::<Vec<_>>()).join(" ");
    assert!(after("").starts_with("h1 h2 pingall link"));
    for (words, next) in [
        ("h1", "ping iperf move"),
        ("not h1 ping", "h1 h2"),
        ("h1 move", "s1 s2"),
        ("link s1", "s1 s2"),
        ("link s1 s2", "up down loss delay rate"),
        ("switch s1", "restart"),
        ("show rules", "s1 s2"),
        ("explain --from", "h1 h2 s1 s2"),
        ("pingall", ""),
        ("nobody", ""),
    ] {
        assert_eq!(after(words), next, "{words}");
    }
}

#[test]
fn the_path_determines_how_much_of_a_stream_arrives() {
    let (runner, mut net) = flooding("linear:2");
    let streamed = runner.iperf(&mut net, "h1", "h2", 2 * SECOND, 10_000_000).unwrap();
    assert_eq!((streamed.rate(), streamed.sent, streamed.lost()), (10_000_000, 2000, 0));
    assert_eq!(
        say(&runner, &mut net, "h1 iperf h2 2s 10mbit"),
        "h1 iperf h2: 10mbit of 10mbit arrived; 0 of 2000 frames lost"
    );
    assert_eq!(say(&runner, &mut net, "port s1 2 rate 2mbit"), "");
    let streamed = runner.iperf(&mut net, "h1", "h2", 2 * SECOND, 10_000_000).unwrap();
    assert!((1_900_000..=2_000_000).contains(&streamed.rate()), "{streamed}");
    let full = ("s1".to_string(), "the queue was full".to_string());
    assert_eq!(streamed.losses.get(&full), Some(&streamed.lost()));
    say(&runner, &mut net, "port s1 2 rate off\n link s1 s2 loss 20%");
    let streamed = runner.iperf(&mut net, "h1", "h2", 2 * SECOND, 10_000_000).unwrap();
    assert!((300..500).contains(&streamed.lost()), "{streamed}");
    assert!(say(&runner, &mut net, "show losses").contains("lost on the link"));
}

#[test]
fn mistakes_are_reported_with_what_was_meant() {
    let (runner, mut net) = flooding("linear:3");
    for (line, says) in [
        ("ping h1 h2", "the host comes first: h1 ping h2"),
        ("h1 png h2", "h1 can't png; did you mean h1 ping?"),
        ("h1 ping h9", "there is no host h9; there are h1 to h3"),
        ("h1 ping hh2", "there is no host hh2; did you mean h2?"),
        ("h1 ping h1", "h1 would talk to itself"),
        ("h1 ping h2 x", "\"x\" is not a count"),
        ("link s1 s3 down", "s1 and s3 are not linked; s1 is linked to s2"),
        ("link s1 s2 loss 5", "\"5\" is not a share such as 5%"),
        ("links s1 s2 down", "there is no command links; did you mean link?"),
        ("switch s1 down", "switch SWITCH restart"),
        ("port s1 9 down", "has no port 9"),
        ("h1 move s2 1", "port 1 of switch"),
        ("queue s1 1 1 min 5mbit max 1mbit", "least is more than its most"),
        ("show rule", "did you mean show rules?"),
        ("pingall 3", "pingall takes no more words"),
        ("dance", "there is no command dance; help says what there is"),
        ("h1 iperf h2 5s 10gbit", "1gbit at most"),
    ] {
        let reported = say(&runner, &mut net, line);
        assert!(reported.starts_with("error: ") && reported.contains(says), "{line}: {reported}");
    }
    assert_eq!(say(&runner, &mut net, "# nothing\n\n"), "");
}

#[test]
fn a_script_ends_at_the_first_command_that_fails_and_says_where() {
    let (runner, mut net) = flooding("linear:2");
    let file = tempfile::NamedTempFile::new().unwrap();
    let file = file.path().to_str().unwrap();
    let mut run = |text: &str| {
        std::fs::write(file, text).unwrap();
        let mut reported = Vec::new();
        let result = run_script(&runner, &mut net, file, &mut |line: &str| reported.push(line.to_string()));
        (reported, result.map_err(|error| error.to_string()))
    };
    let (reported, result) = run("# a lesson\nh1 ping h2\nlink s1 s2 down\nwait 1s\nnot h1 ping h2\nlink s1 s2 up\n");
    assert_eq!((reported.len(), result), (7, Ok(())));
    let (reported, result) = run("link s1 s2 down\nh1 ping h2\npingall\n");
    assert_eq!(
        (reported.len(), result),
        (2, Err(format!("{file}:2: h1 ping h2: no answer: the address of h2 was not resolved")))
    );
    let (reported, result) = run("link s1 s2 up\npingal\n");
    assert!(
        reported.is_empty() && result.is_err_and(|e| e.starts_with(&format!("{file}:2: there is no command pingal")))
    );
    assert!(
        run_script(&runner, &mut net, "/nowhere", &mut |_: &str| {}).is_err_and(|e| e.to_string().contains("/nowhere"))
    );
}

/// Returns the processor time of this thread, which what else the machine does takes no part of.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn ten_thousand_hosts_talk_at_a_cost_in_proportion() {
    // Rules by hardware address, as a controller makes them.
    let took = |hosts: u32| {
        let topology = Topology::parse(&format!("single:{hosts}")).unwrap();
        let began = cpu();
        let mut network = EmulatedNetwork::new(&topology, Version::Of13);
        network.run_for(MILLISECOND);
        let mut bytes = Message::Hello(Hello { version: 4, elements: vec![] }).to_bytes(Version::Of13, 1).unwrap();
        for host in &topology.hosts {
            let mac = host.mac.iter().fold(0, |mac, byte| mac << 8 | u128::from(*byte));
            let actions = vec![Instruction::ApplyActions(vec![Action::output(host.port)])];
            let matching = Match::any().exact(maple_wire::Field::EthDst, mac);
            let rule = FlowMod::new(FlowModCommand::Add, 5, matching, actions);
            Message::FlowMod(rule).encode(Version::Of13, 2, &mut bytes).unwrap();
        }
        network.from_controller(Dpid(1), &bytes).unwrap();
        network.run_for(MILLISECOND);
        for pair in topology.hosts.chunks(2) {
            let frame = maple_wire::packet::Frame::ethernet(pair[1].mac, pair[0].mac).raw(0x88b5, b"hello");
            network.inject_from(&pair[0].name, frame).unwrap();
        }
        network.run_for(SECOND);
        let arrived = network.hosts().filter(|host| host.counters().received == 1).count();
        assert_eq!(arrived, hosts as usize / 2);
        let flood = vec![Instruction::ApplyActions(vec![Action::output(PortNo::FLOOD)])];
        let mut bytes = Vec::new();
        let rule = FlowMod::new(FlowModCommand::Add, 1, Match::any(), flood);
        Message::FlowMod(rule).encode(Version::Of13, 2, &mut bytes).unwrap();
        network.from_controller(Dpid(1), &bytes).unwrap();
        network.run_for(MILLISECOND);
        let frame = maple_wire::packet::Frame::ethernet([0xff; 6], topology.hosts[0].mac).raw(0x88b5, b"all");
        let id = network.inject_from("h1", frame).unwrap();
        network.run_for(SECOND);
        assert_eq!(network.log().copies(id), hosts as usize - 1, "a flood is not a storm");
        cpu() - began
    };
    let (few, many) = (took(1000), took(10_000));
    assert!(many < few * 40, "{few:?} for a thousand, {many:?} for ten thousand");
}
