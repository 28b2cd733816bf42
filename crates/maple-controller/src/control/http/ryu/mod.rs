//! The reading half of Ryu's REST applications `ofctl_rest` and `rest_topology`, for existing dashboards and scripts.
//!
//! Answers are Ryu's, of switches that are asked at that moment. What would write is refused with what to do instead.

mod rules;
mod statistics;
mod topology;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{delete, get, post};
use axum::{Extension, Router};
use serde_json::Value;

use super::access::Role;
use super::api::{Api, Peer, failed, noted, response};
use super::connections::{HttpConnection, InProgress};
use super::lanes::Lane;
use super::parameters;
use super::problem::Problem;
use crate::control::Handle;
use crate::control::membership::check_leads;

/// The parameters of a path.
type InPath = BTreeMap<String, String>;
/// Answers a path with these parameters, in JSON.
type Read = fn(&Handle, &InPath) -> Result<String, Problem>;

/// The paths that are read.
const READ: &[(&str, Read)] = &[
    ("/stats/switches", topology::ids),
    ("/stats/desc/{dpid}", statistics::description),
    ("/stats/flow/{dpid}", statistics::flows),
    ("/stats/aggregateflow/{dpid}", statistics::aggregate),
    ("/stats/table/{dpid}", statistics::tables),
    ("/stats/port/{dpid}", statistics::ports),
    ("/stats/port/{dpid}/{port}", statistics::ports),
    ("/stats/portdesc/{dpid}", topology::port_descriptions),
    ("/stats/portdesc/{dpid}/{port}", topology::port_descriptions),
    ("/stats/queue/{dpid}", statistics::queues),
    ("/stats/queue/{dpid}/{port}", statistics::queues),
    ("/stats/queue/{dpid}/{port}/{queue}", statistics::queues),
    ("/stats/group/{dpid}", statistics::groups),
    ("/stats/group/{dpid}/{group}", statistics::groups),
    ("/stats/groupdesc/{dpid}", statistics::group_descriptions),
    ("/stats/groupdesc/{dpid}/{group}", statistics::group_descriptions),
    ("/stats/meter/{dpid}", statistics::meters),
    ("/stats/meter/{dpid}/{meter}", statistics::meters),
    ("/stats/role/{dpid}", statistics::role),
    ("/v1.0/topology/switches", topology::switches),
    ("/v1.0/topology/switches/{dpid}", topology::switches),
    ("/v1.0/topology/links", topology::links),
    ("/v1.0/topology/links/{dpid}", topology::links),
    ("/v1.0/topology/hosts", topology::hosts),
    ("/v1.0/topology/hosts/{dpid}", topology::hosts),
];

/// The paths that Ryu writes by.
const WRITE: &[&str] = &[
    "/stats/flowentry/{command}",
    "/stats/groupentry/{command}",
    "/stats/meterentry/{command}",
    "/stats/portdesc/{dpid}",
    "/stats/experimenter/{dpid}",
    "/stats/role",
];
/// The paths by which Ryu also reads what fits a filter in the body.
const FILTERED: &[&str] = &["/stats/flow/{dpid}", "/stats/aggregateflow/{dpid}"];
/// The path by which Ryu deletes all rules of a switch.
const CLEAR: &str = "/stats/flowentry/clear/{dpid}";

/// Adds the paths to a router.
pub(super) fn add_ryu(mut router: Router<Arc<Api>>) -> Router<Arc<Api>> {
    for (path, read) in READ {
        let handler =
            move |State(api): State<Arc<Api>>,
                  Extension(peer): Extension<Peer>,
                  Extension(connection): Extension<Arc<HttpConnection>>,
                  in_path: Result<RawPathParams, RawPathParamsRejection>,
                  request: Request| answered(api, *read, (peer, connection), in_path, request);
        router = router.route(path, get(handler));
    }
    for path in WRITE {
        router = router.route(path, post(refuse));
    }
    for path in FILTERED {
        router = router.route(path, post(refuse_filter));
    }
    router.route(CLEAR, delete(refuse))
}

/// Answers a path. A query is ignored, as Ryu does: scripts in browsers add a number to each request
/// (`?_=1790000000000`), so that no cache answers it.
async fn answered(
    api: Arc<Api>,
    read: Read,
    (Peer(peer), connection): (Peer, Arc<HttpConnection>),
    in_path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, _) = request.into_parts();
    api.access.admit(&head, peer, Role::Read)?;
    let in_path = parameters::in_path(in_path)?;
    let permit = api.lanes.enter(Lane::Switches).await?;
    let _in_progress = InProgress::answer(&connection);
    let answer = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        check_leads(&api.handle).map_err(Problem::of_standby)?;
        let answer = read(&api.handle, &in_path)?;
        Ok(response(&api, &head, answer.into_bytes()))
    });
    answer.await.map_err(failed)?
}

/// Refuses to read rules by a filter.
async fn refuse_filter(
    State(api): State<Arc<Api>>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, _) = request.into_parts();
    api.access.admit(&head, peer, Role::Read)?;
    let text = "rules are not filtered here: GET has all of them, and GET /v1/switches/{switch}/rules filters by table, \
                priority, cookie, match and actions";
    Err(Problem::new(StatusCode::NOT_IMPLEMENTED, text))
}

/// Refuses what would change a switch.
async fn refuse(
    State(api): State<Arc<Api>>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, _) = request.into_parts();
    api.access.admit(&head, peer, Role::Read).map_err(|problem| noted(&api, peer, &head, problem))?;
    let text = "Maple writes the rules of switches by itself, as the policy says, and removes others: write what they are to \
                do into a policy, and what changes into its tables (PUT /v1/state/tables/{table}/{key}); POST \
                /v1/invalidate has the policy asked again. docs/from/ryu.md has more";
    Err(noted(&api, peer, &head, Problem::new(StatusCode::NOT_IMPLEMENTED, text)))
}

/// Writes the number of a table, group or meter: some have names.
fn table(number: u8) -> Value {
    match number {
        254 => "MAX".into(),
        255 => "ALL".into(),
        other => other.into(),
    }
}

fn group(number: u32) -> Value {
    match number {
        0xffff_ff00 => "MAX".into(),
        0xffff_fffc => "ALL".into(),
        0xffff_ffff => "ANY".into(),
        other => other.into(),
    }
}

fn meter(number: u32) -> Value {
    match number {
        0xffff_0000 => "MAX".into(),
        0xffff_fffd => "SLOWPATH".into(),
        0xffff_fffe => "CONTROLLER".into(),
        0xffff_ffff => "ALL".into(),
        other => other.into(),
    }
}
