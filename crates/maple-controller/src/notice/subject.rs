//! The subject and the cause of a notice.

use maple_core::report::{Report, ReportSubject};

use super::{ClientNews, Notice};
use crate::kept_files::KeptFile;
use crate::log::Source;

/// Returns the cause of a notice, and its area.
pub(super) fn about(notice: &Notice) -> (Source, &'static str) {
    match notice {
        Notice::Connected { dpid, .. } | Notice::Disconnected { dpid, .. } | Notice::Role { dpid, .. } => {
            (Source::Switch(*dpid), "session")
        }
        Notice::Refused { peer, .. } | Notice::Protocol { peer, .. } => (Source::address(peer.ip()), "session"),
        Notice::HandlerFailed { dpid, .. } => (Source::Switch(*dpid), "policy"),
        Notice::ListenerFailed { .. }
        | Notice::ListenerSlow { .. }
        | Notice::PolicySlow { .. }
        | Notice::Ignored { .. } => (Source::Program, "policy"),
        Notice::Discovery { at, .. } => (Source::Port(*at), "topology"),
        Notice::Cluster(_) => (Source::Program, "run"),
        Notice::File(news) => (Source::Program, about_file(news.file)),
        Notice::Client(ClientNews::Asked { is_allowed: true, .. }) => (Source::Client, "control"),
        Notice::Client(ClientNews::Asked { peer, .. }) => (Source::address(*peer), "control"),
        Notice::Client(ClientNews::LockedOut { peer }) => (Source::address(*peer), "control"),
        Notice::Engine(report) => about_report(report),
    }
}

fn about_file(file: KeptFile) -> &'static str {
    match file {
        KeptFile::State | KeptFile::Timeline => "state",
        KeptFile::Switches | KeptFile::Certificates => "session",
        KeptFile::ControlSocket | KeptFile::Tokens => "control",
        KeptFile::Recording | KeptFile::Log => "run",
    }
}

fn about_report(report: &Report) -> (Source, &'static str) {
    match report {
        Report::HostFound { at, .. }
        | Report::HostLost { at, .. }
        | Report::TooManyHosts { at, .. }
        | Report::TooManyAddresses { at, .. }
        | Report::AddressOfAnother { at, .. } => (Source::Port(*at), "hosts"),
        Report::HostMoved { to, .. } => (Source::Port(*to), "hosts"),
        Report::HostElsewhere { seen, .. } | Report::HostSpoofed { seen, .. } | Report::HostMisplaced { seen, .. } => {
            (Source::Port(*seen), "hosts")
        }
        Report::HostFlips { a, .. } => (Source::Port(*a), "hosts"),
        Report::SwitchUp(dpid)
        | Report::SwitchDown(dpid)
        | Report::SwitchUnreachable(dpid)
        | Report::SwitchReachable(dpid) => (Source::Switch(*dpid), "topology"),
        Report::LinkUp(a, _) | Report::LinkDown(a, _) => (Source::Port(*a), "topology"),
        Report::SegmentShared { at, .. } | Report::SegmentOfLinks { at, .. } => (Source::Port(*at), "topology"),
        Report::PolicyFailed { at, .. }
        | Report::RouteGoesBack { at, .. }
        | Report::PlaceAbsent { at, .. }
        | Report::ConstraintViolated { at, .. }
        | Report::NoRuleForWay { at }
        | Report::AccessLogged { at, .. } => (Source::Port(*at), "policy"),
        Report::Suppressed { about, .. } => (
            match about {
                ReportSubject::Policy => Source::Program,
                ReportSubject::Switch(dpid) => Source::Switch(*dpid),
                ReportSubject::Port(at) => Source::Port(*at),
            },
            "run",
        ),
        Report::ListsInstalling { .. } | Report::ListsInstalled { .. } => (Source::Program, "rules"),
        Report::PolicyWrites { .. } | Report::PolicyNotAFunction { .. } => (Source::Program, "policy"),
        Report::NotLabelled { ingress: dpid, .. }
        | Report::RuleRefused { switch: dpid, .. }
        | Report::FewerTables { switch: dpid, .. }
        | Report::NoActionSets { switch: dpid, .. }
        | Report::LookUpLowered { switch: dpid, .. }
        | Report::BundleRefused { switch: dpid, .. }
        | Report::NotMetered { switch: dpid, .. }
        | Report::CountersRefused { switch: dpid, .. }
        | Report::RulesRepaired { switch: dpid, .. }
        | Report::RulesNotRepaired { switch: dpid, .. }
        | Report::MetersRepaired { switch: dpid, .. }
        | Report::ForeignRule { switch: dpid, .. }
        | Report::RulesLost { switch: dpid, .. } => (Source::Switch(*dpid), "rules"),
        // Later versions may have other reports.
        _ => (Source::Program, "run"),
    }
}

/// Returns the error of the policy that a notice is about. Each shard reports an error once.
pub(super) fn policy_error(notice: &Notice) -> Option<std::sync::Arc<str>> {
    match notice {
        Notice::Engine(Report::PolicyFailed { error, .. }) => Some(error.clone()),
        _ => None,
    }
}
