//! The page at `/`: its built files, which `build.rs` embeds, with headers that keep it to this server.
//!
//! The files hold nothing of the network, so no token is needed to load them; what the page asks afterwards needs one.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use siphasher::sip128::SipHasher13;

use super::api::{Api, is_known};
use super::problem::Problem;

/// A file of the page.
struct PageFile {
    path: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

/// The files; none if the crate was built without the page.
const FILES: &[PageFile] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// Whether the crate was built with the page.
pub const HAS_PAGE: bool = !FILES.is_empty();
/// The file that is served at `/`.
const INDEX: &str = "/index.html";
/// The content security policy: the page may load and ask this server, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
    frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
/// Names of the other files change with their content.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
/// The text where there is no page.
const ABSENT: &str = "This Maple was built without its page: `make web` builds it with Node 20 or newer, and then Maple \
    has to be built again. The API is there: /v1/openapi.json describes it.\n";

/// Adds the routes of the page.
pub(super) fn add_page(mut router: Router<Arc<Api>>) -> Router<Arc<Api>> {
    if !HAS_PAGE {
        return router.route("/", get(absent));
    }
    for file in FILES {
        let tag: Arc<str> = format!("\"{}\"", hex::encode(SipHasher13::new().hash(file.bytes).as_bytes())).into();
        let handler = move |State(api): State<Arc<Api>>, request: Request| async move {
            api.access.admit_to_page(request.headers())?;
            Ok::<_, Problem>(response(file, &tag, request.headers()))
        };
        router = router.route(if file.path == INDEX { "/" } else { file.path }, get(handler));
    }
    router
}

async fn absent(State(api): State<Arc<Api>>, request: Request) -> Result<Response, Problem> {
    api.access.admit_to_page(request.headers())?;
    Ok((StatusCode::NOT_FOUND, ABSENT).into_response())
}

/// Makes the response of a file. A reader that has it already gets none.
fn response(file: &PageFile, tag: &str, asked: &HeaderMap) -> Response {
    let mut response = if is_known(asked, tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        Response::new(Body::from(file.bytes))
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.kind));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(header::ETAG, tag);
    }
    if file.path != INDEX {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(FOR_EVER));
    }
    response
}
