#!/usr/bin/env bash
# etherparse reads an ICMPv6 message in an IPv4 packet, and an ICMP message in an IPv6 packet. IP stacks and switches know
# neither: there protocol 58 of IPv4 and protocol 1 of IPv6 are protocols like any unknown one, without type and code.
set -euo pipefail

version=0.21.0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unknown() {
    echo "not found out: $1" >&2
    exit 2
}

mkdir "$folder/src"
cat >"$folder/Cargo.toml" <<TOML
[package]
name = "finding"
version = "0.0.0"
edition = "2021"

[dependencies]
etherparse = "=$version"

[workspace]
TOML
cat >"$folder/src/main.rs" <<'RUST'
use etherparse::{SlicedPacket, TransportSlice};

/// What the library takes the payload of an IP packet for. The payload is eight bytes: type 8, code 3.
fn read(ip: &[u8]) -> String {
    let payload = [8, 3, 0, 0, 0, 0, 0, 0];
    let packet = [ip, &payload[..]].concat();
    let sliced = SlicedPacket::from_ip(&packet).expect("the packet is well formed");
    match &sliced.transport {
        Some(TransportSlice::Icmpv4(icmp)) => format!("ICMP, type {} code {}", icmp.type_u8(), icmp.code_u8()),
        Some(TransportSlice::Icmpv6(icmp)) => format!("ICMPv6, type {} code {}", icmp.type_u8(), icmp.code_u8()),
        Some(_) => "another transport".into(),
        None => "no transport that it knows".into(),
    }
}

/// An IPv4 header for eight bytes of this protocol.
fn v4(protocol: u8) -> Vec<u8> {
    vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]
}

/// An IPv6 header for eight bytes of this protocol.
fn v6(protocol: u8) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0, 0, 8, protocol, 64];
    for host in [1, 2] {
        header.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    header
}

fn main() {
    for ip in [v4(1), v4(58), v4(200), v6(58), v6(1), v6(200)] {
        println!("{}", read(&ip));
    }
}
RUST
CARGO_TARGET_DIR="$folder/target" cargo build --quiet --manifest-path "$folder/Cargo.toml" 2>"$folder/log" ||
    { cat "$folder/log" >&2; unknown "etherparse $version cannot be built"; }
echo "version: etherparse $version"
mapfile -t read < <("$folder/target/debug/finding")

status=0
is() {
    printf '%s: %s\n' "$1" "$3"
    [ "$2" = "$3" ] || { echo "  expected: $2"; status=1; }
}
is 'protocol 1 in IPv4' 'ICMP, type 8 code 3' "${read[0]-}"
is 'protocol 58 in IPv4' 'ICMPv6, type 8 code 3' "${read[1]-}"
is 'protocol 200 in IPv4' 'no transport that it knows' "${read[2]-}"
is 'protocol 58 in IPv6' 'ICMPv6, type 8 code 3' "${read[3]-}"
is 'protocol 1 in IPv6' 'ICMP, type 8 code 3' "${read[4]-}"
is 'protocol 200 in IPv6' 'no transport that it knows' "${read[5]-}"
echo 'meaning: who tells packets apart with it, as a rule of a switch would, has to ask for the version of IP too'
exit $status
