//! The programs that people run: the Rust-only binary, and the example policies in Rust, on emulated networks.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Returns the path of an example, which lies beside the directory of this test's own binary.
fn example(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().expect("this test has a path");
    path.pop();
    path.pop();
    path.join("examples").join(name)
}

fn run(program: PathBuf, arguments: &[&str]) -> Output {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(&program);
    command.args(arguments).current_dir(root);
    command.output().unwrap_or_else(|error| {
        panic!("{}: {error} (plain `cargo test -p maple-cli` builds the examples)", program.display())
    })
}

fn maple(arguments: &[&str]) -> Output {
    run(env!("CARGO_BIN_EXE_maple").into(), arguments)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the number after a line of the summary.
fn counted(output: &Output, line: &str) -> u64 {
    let out = text(&output.stdout);
    let found = out.lines().find_map(|l| l.trim().strip_prefix(line)).map(str::trim);
    found.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no {line:?} in:\n{out}"))
}

const RING: [&str; 4] = ["--emulate", "ring:4", "--traffic", "1s"];

fn obeys(name: &str) -> Output {
    obeys_with(name, &[])
}

fn obeys_with(name: &str, options: &[&str]) -> Output {
    let output = run(example(name), &[&RING, options].concat());
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    assert!(counted(&output, "treated as f says") > 0);
    assert_eq!(counted(&output, "treated otherwise than f says"), 0);
    assert!(!text(&output.stdout).contains("warning"), "{}", text(&output.stdout));
    output
}

/// A process that is killed when this is dropped.
struct Child(std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn top_prints_one_picture_where_there_is_no_terminal_and_says_that_there_is_no_controller() {
    let folder = std::env::temp_dir().join(format!("maple-top-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let socket = folder.join("control.sock");
    let control = ["--control", socket.to_str().expect("text")];
    let output = maple(&[&["top"], &control[..]].concat());
    assert!(!output.status.success() && text(&output.stderr).contains("is `maple run` running"), "{output:?}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_maple"));
    command.args(["run", "builtin:shortest-path", "--emulate", "ring:4", "--console"]).args(control);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = Child(command.spawn().expect("it starts"));
    let mut input = child.0.stdin.take().expect("it reads");
    writeln!(input, "pingall").expect("it reads");
    let answered = BufReader::new(child.0.stdout.take().expect("it writes")).lines().map_while(Result::ok);
    assert!(answered.into_iter().any(|line| line.contains("12 of 12 answered")));
    for options in [&["top"][..], &["top", "--once"]] {
        let output = maple(&[options, &control[..]].concat());
        let said = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(said.contains("4 switches, ") && said.contains("switches (4)\n"), "{said}");
        let row = said.lines().find(|line| line.starts_with("packet-ins")).expect("a rate");
        assert!(row.contains("/s") && !row.ends_with(" 0 in all"), "{said}");
        assert!(said.contains("h1") && said.contains("talkers ("), "{said}");
    }
    drop(child);
    std::fs::remove_dir_all(folder).expect("it was there");
}

#[test]
fn learning_is_obeyed() {
    obeys("learning");
}

#[test]
fn secure_routing_is_obeyed_and_its_rules_name_its_lines() {
    assert!(text(&obeys("secure_routing").stdout).contains("examples/secure_routing.rs:"));
}

#[test]
fn shortest_path_is_obeyed() {
    let output = obeys("shortest_path");
    assert_eq!(counted(&output, "flows opened"), counted(&output, "ended well"));
}

#[test]
fn acl_is_obeyed_and_stops_what_it_denies() {
    let output = obeys_with("acl", &["--allow-drops"]);
    assert!(counted(&output, "ended well") < counted(&output, "flows opened"));
    let output = run(example("acl"), &RING);
    assert_eq!(output.status.code(), Some(1));
    let says = text(&output.stderr);
    assert!(
        says.contains("flows did not end, as the policy says; if it drops packets on purpose, say --allow-drops"),
        "{says}"
    );
}

#[test]
fn a_program_replays_and_explains_its_own_recordings() {
    let folder = tempfile::tempdir().expect("a folder");
    let recordings = folder.path().join("all");
    let recordings = recordings.to_str().expect("a name");
    let network = ["--emulate", "ring:4", "--traffic", "4s", "--rate", "50", "--allow-drops", "--look-ups", "4"];
    let recorded = run(example("acl"), &[&network[..], &["--record", recordings]].concat());
    assert!(recorded.status.success(), "{}{}", text(&recorded.stdout), text(&recorded.stderr));
    let replayed = run(example("acl"), &["replay", recordings]);
    assert!(text(&replayed.stdout).contains("identical"), "{}{}", text(&replayed.stdout), text(&replayed.stderr));
    let question =
        ["--recording", recordings, "--at", "6s", "--from", "00:00:00:00:00:01", "--to", "00:00:00:00:00:02"];
    let explained = run(example("acl"), &[&["explain"], &question[..], &["tcp_dst=23"]].concat());
    let other = maple(&[&["explain"], &question[..]].concat());
    assert!(text(&explained.stdout).contains("acl.rs:"), "{}{}", text(&explained.stdout), text(&explained.stderr));
    assert_eq!(other.status.code(), Some(1), "the program is not known elsewhere: {}", text(&other.stdout));
}

#[test]
fn mt_route_is_obeyed() {
    obeys_with("mt_route", &["--allow-drops"]);
}

#[test]
fn multicast_group_is_obeyed() {
    obeys("multicast_group");
}

#[test]
fn blocklist_is_obeyed() {
    obeys("blocklist");
}

#[test]
fn topology_is_obeyed_and_tells_of_the_ring() {
    let reported = text(&obeys("topology").stdout);
    assert!(reported.contains("switch 1 is there") && reported.contains("link 1:2 - 2:2 is there"), "{reported}");
}

#[test]
fn parallel_paths_is_obeyed() {
    obeys("parallel_paths");
    let mut command = Command::new(example("parallel_paths"));
    let output = command.env("MAPLE_THREADS", "many").output().expect("the example runs");
    assert!(text(&output.stderr).contains("MAPLE_THREADS is a number of threads"));
}

#[test]
fn the_examples_read_nothing_that_is_not_tracked() {
    for name in [
        "learning",
        "secure_routing",
        "shortest_path",
        "acl",
        "mt_route",
        "multicast_group",
        "blocklist",
        "parallel_paths",
        "bandwidth",
    ] {
        let output = run(example(name), &["check", "--rounds", "1", "--pause", "0", "--packets", "300"]);
        assert!(output.status.success(), "{name}: {}{}", text(&output.stdout), text(&output.stderr));
        assert!(text(&output.stdout).ends_with("no untracked state was seen\n"));
    }
}

#[test]
fn a_check_says_what_it_covered_and_starts_with_the_packets_of_a_capture() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let capture = root.join("tests/data/unknown-host.pcap");
    let options = ["--pause", "0", "--packets", "60", "--json", "--pcap", capture.to_str().expect("a plain path")];
    let output = maple(&[&["check", "builtin:secure-routing"], &options[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let reported: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let coverage = &reported["coverage"];
    assert_eq!(coverage["packets"].as_u64().zip(coverage["made"].as_u64()), Some((60, 58)), "two were in the capture");
    assert_eq!(coverage["runs"].as_u64(), Some(60 * 5), "twice, and in three rounds");
    assert_eq!((coverage["failed"].as_u64(), reported["runs"].as_array().map(Vec::len)), (Some(0), Some(0)));
    let output = maple(&["check", "builtin:learning-switch"]);
    assert_eq!(output.status.code(), Some(2), "handlers are no policies");
}

#[test]
fn bandwidth_is_obeyed() {
    obeys("bandwidth");
    let mut command = Command::new(example("bandwidth"));
    let output = command.env("MAPLE_CAPACITY", "much").output().expect("the example runs");
    assert!(text(&output.stderr).contains("MAPLE_CAPACITY is a number of Mbit/s, not \"much\""));
}

#[test]
fn an_acl_that_is_wrong_is_named_with_its_line() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&file, "permit arp\nallow all\n").expect("the temporary folder is writable");
    let output = Command::new(example("acl")).env("MAPLE_ACL", file.path()).output().expect("the example runs");
    assert!(!output.status.success());
    assert!(
        text(&output.stderr).contains(":2: \"allow all\": the action is permit or deny"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn built_in_policies_run_on_both_versions() {
    for policy in ["builtin:flood", "builtin:shortest-path", "builtin:secure-routing"] {
        for version in ["1.0", "1.3"] {
            let output = maple(&["run", policy, "--emulate", "tree:2,2", "--traffic", "500ms", "--of", version]);
            assert!(output.status.success(), "{policy} {version}\n{}", text(&output.stdout));
        }
    }
}

#[test]
fn python_policies_need_the_wheel() {
    let output = maple(&["run", "examples/secure_routing.py"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("was built without Python"));
}

#[test]
fn wrong_command_lines_end_with_2_and_help_with_0() {
    assert_eq!(maple(&["run"]).status.code(), Some(2));
    assert_eq!(maple(&["run", "builtin:flood", "--workers", "0"]).status.code(), Some(2));
    assert_eq!(maple(&["--help"]).status.code(), Some(0));
}

#[test]
fn a_build_that_is_not_optimised_says_so() {
    let version = concat!("maple ", env!("CARGO_PKG_VERSION"));
    // Tests are built as the program is that they start.
    let (suffix, is_noted) = if cfg!(debug_assertions) { (" (not optimised)", true) } else { ("", false) };
    assert_eq!(text(&maple(&["--version"]).stdout), format!("{version}{suffix}\n"));
    let output = maple(&["run", "builtin:flood", "--emulate", "linear:2", "--traffic", "1s"]);
    assert_eq!(text(&output.stderr).contains("note: this build is not optimised"), is_noted);
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    for output in [maple(&["run", "builtin:flood", "--rate", "5"]), run(example("shortest_path"), &["--rate", "5"])] {
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(
            text(&output.stderr),
            "error: --rate needs --emulate TOPOLOGY: only an emulated network has switches and hosts of ours\n"
        );
    }
}

#[test]
fn a_question_to_nobody_says_where_somebody_may_be() {
    let output = maple(&["show", "rules", "--control", "/nonexistent/maple.sock"]);
    assert_eq!(output.status.code(), Some(1));
    let reported = text(&output.stderr);
    assert!(
        reported.contains("no controller at /nonexistent/maple.sock") && reported.contains("--control PATH"),
        "{reported}"
    );
}

#[test]
fn output_that_nobody_reads_is_no_failure() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_maple"));
    command.args(["run", "builtin:flood", "--emulate", "linear:2", "--traffic", "200ms"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let reported = text(&output.stderr);
    let reported: Vec<&str> = reported.lines().filter(|line| !line.starts_with("note: this build")).collect();
    assert!(reported.is_empty(), "{reported:?}");
}

#[test]
fn handlers_refuse_options_of_policies_and_cores_that_are_not_there() {
    let output = maple(&["run", "builtin:learning-switch", "--emulate", "ring:3"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--emulate is for policies"), "{}", text(&output.stderr));
    let output = maple(&["run", "builtin:hub", "--listen", "127.0.0.1:0", "--control", "none", "--cores", "9999"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("core 9999 is not available"), "{}", text(&output.stderr));
}

#[test]
fn a_load_says_what_is_wrong_with_its_options_and_that_nobody_listens() {
    for (arguments, says) in [
        (&["load", "--rate", "10"][..], "--rate needs --mode rate"),
        (&["load", "--mode", "latency", "--window", "2"], "--mode latency is a window of 1"),
        (&["load", "--burst", "2"], "--burst needs --mode rate"),
        (
            &["load", "--mode", "rate", "--rate", "9", "--window", "4", "--burst", "5"],
            "a burst is 1 packet-in to the window",
        ),
        (&["load", "--connect", "127.0.0.1:1", "--switches", "0"], "there must be a switch"),
        (&["load", "--connect", "127.0.0.1:1"], "switch 1 can't connect to 127.0.0.1:1"),
    ] {
        let output = maple(arguments);
        let is_wrong = !says.contains("can't connect");
        assert_eq!(output.status.code(), Some(if is_wrong { 2 } else { 1 }), "{arguments:?}");
        assert!(text(&output.stderr).contains(says), "{arguments:?}: {}", text(&output.stderr));
    }
    assert_eq!(maple(&["load", "--mode", "rate"]).status.code(), Some(2));
}

/// A controller on a free port, which ends with the test.
struct Running(std::process::Child, String);

impl Running {
    fn start(program: PathBuf, arguments: &[&str]) -> Running {
        let mut command = Command::new(&program);
        command.args(arguments).args(["--listen", "127.0.0.1:0", "--control", "none"]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it says where it listens");
        let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line:?}")).to_owned();
        Running(child, address)
    }

    /// Returns the report of `maple load` towards a controller, whether or not its figures count on a busy machine.
    fn load(&self, arguments: &[&str]) -> serde_json::Value {
        let output = maple(&[&["load", "--connect", &self.1, "--duration", "500ms", "--json"][..], arguments].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It is our own child, and may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn requests_between_hosts_of_a_network_come_back_to_where_they_came_from() {
    let controller = Running::start(env!("CARGO_BIN_EXE_maple").into(), &["run", "builtin:shortest-path"]);
    let topology = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/provider-79.json");
    // So short that some of the flows are new when it is measured.
    let rate = ["--topology", topology, "--mode", "rate", "--rate", "200", "--of", "1.3", "--warmup", "100ms"];
    let report = controller.load(&[&rate[..], &["--settle", "4s"]].concat());
    let figure = |name: &str| report[name].as_f64().unwrap_or_else(|| panic!("{name} in {report}"));
    assert_eq!((figure("switches"), figure("offered")), (79.0, 200.0));
    assert!(report["packets"].as_str().is_some_and(|text| text.contains("pairs of 79 hosts")), "{report}");
    assert!(figure("answers") > 0.0, "{report}");
    assert!(figure("packet_ins") > 20.0 && figure("flow_mods") > 0.0, "{report}");
    assert_eq!(figure("strange"), 0.0, "copies of a flood are not strange: {report}");
}

#[test]
fn the_packets_of_a_trace_are_answered() {
    let controller = Running::start(env!("CARGO_BIN_EXE_maple").into(), &["run", "builtin:learning-switch"]);
    let file = tempfile::NamedTempFile::new().expect("a file");
    let lines: String =
        (0..50).map(|n| format!("{}\t{}\t{n}\t80\t6\t0\t{n}\n", 0x0a00_0000 + n, 0x0a00_0100 + n % 5)).collect();
    std::fs::write(&file, lines).expect("the temporary folder is writable");
    let name = file.path().to_str().expect("it is text");
    let report = controller.load(&["--trace", name, "--switches", "2", "--window", "8", "--warmup", "300ms"]);
    let figure = |name: &str| report[name].as_f64().unwrap_or_else(|| panic!("{name} in {report}"));
    assert_eq!(report["packets"], "a trace of 50 packets");
    assert!(figure("answers") > 0.0 && figure("strange") == 0.0, "{report}");
    assert!(figure("flow_mods") > 0.9 * figure("answers"), "the destinations were taught: {report}");
    let output = maple(&["load", "--trace", "/nonexistent", "--connect", &controller.1]);
    assert!(text(&output.stderr).contains("can't read /nonexistent"), "{}", text(&output.stderr));
}

#[test]
fn handlers_with_network_state_serve_an_emulated_network() {
    let controller = Running::start(example("learning_network_handler"), &[]);
    let output = maple(&["emulate", "linear:3", "--controller", &controller.1, "--traffic", "1s"]);
    assert!(output.status.success(), "{}", text(&output.stdout));
}

#[test]
fn the_learning_switch_as_a_handler_answers() {
    let controller = Running::start(example("learning_switch_handler"), &[]);
    for version in ["1.0", "1.3"] {
        let report = controller.load(&[
            "--switches",
            "2",
            "--macs",
            "10",
            "--window",
            "8",
            "--warmup",
            "200ms",
            "--of",
            version,
        ]);
        assert!(report["flow_mods"].as_f64() > Some(0.0) && report["strange"] == 0, "{report}");
    }
}

#[test]
fn a_script_that_waits_names_the_switch_that_the_controller_sends_away() {
    let controller = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = controller.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for stream in controller.incoming() {
            let mut stream = stream.expect("a connection");
            // Hello, and then: hello failed, incompatible.
            let _ = stream.write_all(&[4, 0, 0, 8, 0, 0, 0, 1, 4, 1, 0, 12, 0, 0, 0, 2, 0, 0, 0, 0]);
        }
    });
    let script = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&script, "pingall\n").expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_maple"));
    command.args(["emulate", "single:1", "--controller", &address, "--script"]).arg(script.path());
    let mut waiting = command.stdout(Stdio::piped()).spawn().expect("it runs");
    let lines = BufReader::new(waiting.stdout.take().expect("a pipe")).lines();
    let said = lines.map_while(Result::ok).find(|line| line.starts_with("waiting: ")).unwrap_or_default();
    waiting.kill().expect("it runs");
    waiting.wait().expect("it ends");
    let begins = said.starts_with("waiting: 0 of 1 switches were connected: s1 (0000000000000001) had ");
    assert!(begins && said.ends_with(" connections, which the controller closed"), "{said:?}");
}
