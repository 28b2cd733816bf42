//! Emulated networks as a laboratory: scripts, the console, and a controller that is not there.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};

/// Runs `maple` with something typed.
fn typed(arguments: &[&str], text: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_maple"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Runs a script on a policy's ring.
fn script(text: &str, options: &[&str]) -> (Option<i32>, String) {
    let file = tempfile::Builder::new().suffix(".maple").tempfile().unwrap();
    std::fs::write(&file, text).unwrap();
    let all = ["run", "builtin:shortest-path", "--emulate", "ring:4", "--script", file.path().to_str().unwrap()];
    let output = typed(&[&all, options].concat(), "");
    (output.status.code(), reported(&output))
}

fn reported(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_lesson_runs_from_a_file_on_both_versions_and_every_packet_is_judged() {
    let lesson = "pingall\nlink s1 s2 down\nwait 500ms\nh1 ping h2 3\nlink s1 s2 up\nport s3 1 down\nwait 500ms\n\
                  not h1 ping h3\nport s3 1 up\nh1 move s3\nwait 1s\nswitch s2 restart\nwait 2s\nh4 ping h1 2\n\
                  link s1 s4 delay 5ms\nh2 iperf h3 1s 1mbit\n";
    for version in ["1.0", "1.3"] {
        let (status, reported) = script(lesson, &["--of", version]);
        assert_eq!(status, Some(0), "{reported}");
        assert!(
            reported.contains("pingall: 12 of 12 answered") && reported.contains("h2 iperf h3: 1mbit of 1mbit"),
            "{reported}"
        );
        assert!(!reported.contains("treated as f says                       0"), "{reported}");
    }
}

#[test]
fn with_an_http_api_the_network_stays_after_its_traffic_and_the_last_line_names_the_address() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_maple"));
    command.args(["run", "builtin:shortest-path", "--emulate", "linear:2", "--traffic", "1s", "--http", "127.0.0.1:0"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut reported = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let last = loop {
        let mut line = String::new();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "it ended: {reported}");
        reported += &line;
        if let Some((_, address)) = line.split_once("the network stays until Ctrl-C; ") {
            break address.trim().to_owned();
        }
    };
    assert!(reported.contains("treated as f says"), "it comes after the summary: {reported}");
    let address = last.split_once("http://").and_then(|(_, rest)| rest.split('/').next()).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /v1/hosts HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("00:00:00:00:00:02"), "{answer}");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    lines.read_to_string(&mut reported).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{reported}");
}

#[test]
fn a_command_that_fails_is_status_1_and_one_that_is_none_is_status_2() {
    let (status, reported) = script("h1 ping h2\nnot h1 ping h3\n", &[]);
    assert!(status == Some(1) && reported.contains(".maple:2: h1 ping h3: answered in"), "{reported}");
    let (status, reported) = script("h1 ping h2\nh1 pong h3\n", &[]);
    assert!(status == Some(2) && reported.contains(".maple:2: h1 can't pong; did you mean h1 ping?"), "{reported}");
}

#[test]
fn losses_on_a_lossy_link_are_not_blamed_on_the_policy() {
    let (status, reported) = script("h1 ping h2\nlink s1 s2 loss 30%\nh1 iperf h2 1s 2mbit\n", &["--seed", "5"]);
    assert!(status == Some(0) && reported.contains("lost by links, meters, failures"), "{reported}");
}

#[test]
fn the_console_answers_and_goes_on_after_mistakes() {
    let all = ["run", "builtin:shortest-path", "--emulate", "linear:2", "--console"];
    let output = typed(&all, "h1 png h2\nh1 ping h2\nshow links\nexit\n");
    let reported = reported(&output);
    assert_eq!(output.status.code(), Some(0), "{reported}");
    for said in ["did you mean h1 ping?", "h1 ping h2: answered in", "s1:2 - s2:2"] {
        assert!(reported.contains(said), "{said} in {reported}");
    }
}

#[test]
fn the_console_asks_the_controller_of_its_process_and_both_know_the_names() {
    let all = ["run", "builtin:shortest-path", "--emulate", "linear:2", "--console", "--look-ups", "4"];
    let asked = "h1 ping 10.0.0.2\nexplain --from h1 --to s2:1\nshow rules s1\nshow rules --host h1 --table 1\n\
                 show ports s2\nshow hosts\nshow emulated links\nshow names\nshow rule\nshow tables s9\nstate get x\n";
    let output = typed(&all, asked);
    let reported = reported(&output);
    assert_eq!(output.status.code(), Some(0), "{reported}");
    for said in [
        "h1 ping h2: answered in",
        "h1 (s1:1) → h2 (s2:1)  icmp 10.0.0.1 > 10.0.0.2 echo request  forwarded by builtin.rs:",
        "  # crates/maple-cli/src/builtin.rs:",
        "switch s1: 1 rule, 1 in table 1",
        "dl_dst=h1 actions=write_metadata",
        "# maple: hosts[eth_dst] for",
        "  port 1 (s2-eth1): up, edge",
        "h1 (00:00:00:00:00:01) at s1:1 10.0.0.1",
        "s1:2     s2:2     up",
        "s1 is 0000000000000001",
        "a similar subcommand exists: 'rules'",
        "\"s9\" is not a switch",
        "there is no table x",
    ] {
        assert!(reported.contains(said), "{said} in {reported}");
    }
}

#[test]
fn questions_of_a_script_are_read_before_anything_is_done() {
    let (status, reported) = script("h1 ping h3\nexplain --from h1 --to h3\nnot state get nothing\n", &[]);
    assert!(status == Some(0) && reported.contains("leaves by s3:1 to h3"), "{reported}");
    let (status, reported) = script("h1 ping h3\nshow rule\n", &[]);
    assert!(status == Some(2) && reported.contains(".maple:2: error: unrecognized subcommand"), "{reported}");
    let (status, reported) = script("state get nothing\n", &[]);
    assert!(status == Some(1) && reported.contains(".maple:1: there is no table nothing"), "{reported}");
}

#[test]
fn a_controller_that_is_not_there_is_reported_once() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let commands = "wait 1s\nshow switches\nstate list\n";
    let output = typed(&["emulate", "linear:5", "--controller", &address, "--console"], commands);
    let reported = reported(&output);
    assert_eq!(reported.matches(&format!("{address}: connection refused")).count(), 1, "{reported}");
    assert!(reported.contains("s1     not connected"), "{reported}");
    assert!(reported.contains("state asks a controller in the same process"), "{reported}");
}
