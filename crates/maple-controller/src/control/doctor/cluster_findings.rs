//! The cluster of a controller: who could take over, and what etcd says.

use serde_json::Value;

use super::{Finding, FindingId, Severity, is_standby, items, text};

/// Returns the findings about the cluster of a controller that says this of itself; none if it is in none.
pub fn findings(about: &Value) -> Vec<Finding> {
    let cluster = &about["cluster"];
    // A program that says itself who leads knows more than this controller.
    if !cluster["cluster"].is_string() {
        return Vec::new();
    }
    let place = format!("cluster {}", text(&cluster["cluster"]));
    let finding = |severity, id| Finding::new(severity, id, &place);
    let mut found = Vec::new();
    if let Some(trouble) = cluster["trouble"].as_str() {
        let servers: Vec<&str> = items(&cluster["etcd"]).map(text).collect();
        found.push(
            finding(Severity::Error, FindingId::EtcdAway)
                .what(trouble)
                .consequence("who is master stays so, and no other controller takes its place until etcd answers")
                .mend(format!("etcdctl --endpoints={} endpoint status", servers.join(","))),
        );
    } else if cluster["master"].is_null() {
        found.push(
            finding(Severity::Error, FindingId::NoMaster)
                .what("no controller is master")
                .consequence("switches keep their rules, and nobody answers new packets")
                .mend("maple show cluster  # again in some seconds: somebody becomes master when a lease has ended"),
        );
    }
    let members: Vec<&str> = items(&cluster["members"]).map(text).collect();
    if let [only] = members[..] {
        found.push(
            finding(Severity::Warning, FindingId::NoStandby)
                .what(format!("{only} is the only controller that is there"))
                .consequence("if it ends, nobody takes over")
                .mend("maple run POLICY --cluster ADDRESS --name OTHER  # on another machine"),
        );
    }
    if is_standby(about) && cluster["connections"].as_u64() == Some(0) {
        found.push(
            Finding::new(Severity::Error, FindingId::StandbyUnlisted, format!("controller {}", text(&cluster["name"])))
                .what("it is a standby, and no switch is connected to it")
                .consequence("if it becomes master, it has no switch")
                .mend("ovs-vsctl set-controller BRIDGE tcp:MASTER:6653 tcp:STANDBY:6653"),
        );
    }
    found.extend(no_copy(about));
    found
}

/// Returns the finding that a standby could not go on with what the master has decided.
fn no_copy(about: &Value) -> Option<Finding> {
    let cluster = &about["cluster"];
    let copy = &cluster["copy"];
    let (severity, what) = match copy["trouble"].as_str() {
        Some(trouble) => (Severity::Warning, format!("nothing comes from the master: {trouble}")),
        None if copy.is_null() => (Severity::Note, "it was started without --cluster-listen".to_owned()),
        None => return None,
    };
    if !is_standby(about) || cluster["master"].is_null() {
        return None;
    }
    let place = format!("controller {}", text(&cluster["name"]));
    let finding = Finding::new(severity, FindingId::NoCopy, place).what(what);
    let finding =
        finding.consequence("if it becomes master, it decides everything anew, and packets are lost meanwhile");
    Some(
        finding.mend("maple run POLICY --cluster ADDRESS --name NAME --cluster-listen HOST:PORT  # at each controller"),
    )
}
