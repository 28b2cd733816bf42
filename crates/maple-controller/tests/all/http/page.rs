//! The page at `/`, which is there if it was built before the crate: `make web`.

use super::{Ask, Served, TOKENS};

#[test]
fn pages_of_other_names_do_not_get_the_page_and_nobody_needs_a_token_for_it() {
    let served = Served::new(TOKENS, |_| {});
    let page = |host: &str| served.ask(&Ask::new("GET", "/", "").with("Host", host)).status;
    assert_eq!(page("localhost:8653"), if cfg!(has_page) { 200 } else { 404 });
    assert_eq!(page("evil.example"), 421);
    assert_eq!(served.ask(&Ask::new("POST", "/", "")).refusal().0, 405);
    for missing in ["/index.html", "/assets/nothing.js", "/assets/..%2f..%2fCargo.toml", "/favicon.ico"] {
        assert_eq!(served.ask(&Ask::new("GET", missing, "")).refusal().0, 404, "{missing}");
    }
}

#[cfg(not(has_page))]
#[test]
fn a_build_without_the_page_says_how_to_get_it() {
    let served = Served::new("", |_| {});
    let said = served.get("/");
    assert_eq!((said.status, said.header("content-type")), (404, Some("text/plain; charset=utf-8")));
    assert!(said.body.contains("make web") && said.body.contains("/v1/openapi.json"), "{}", said.body);
}

#[cfg(has_page)]
#[test]
fn the_page_and_its_files_may_load_and_ask_this_server_and_nothing_else() {
    let served = Served::new("", |_| {});
    let page = served.get("/");
    assert_eq!(page.header("cache-control"), Some("no-cache"));
    let files: Vec<&str> = page.body.split('"').filter(|part| part.starts_with("./assets/")).collect();
    let kinds = |suffix: &str| files.iter().filter(|file| file.ends_with(suffix)).count();
    assert_eq!((kinds(".js"), kinds(".css"), files.len()), (1, 1, 2), "{}", page.body);
    for path in files.iter().map(|file| file.trim_start_matches('.')).chain(["/"]) {
        let said = served.get(path);
        let kind = match path.rsplit_once('.') {
            Some((_, "js")) => "text/javascript; charset=utf-8",
            Some((_, "css")) => "text/css; charset=utf-8",
            _ => "text/html; charset=utf-8",
        };
        assert_eq!((said.status, said.header("content-type")), (200, Some(kind)), "{path}");
        let policy = said.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
        assert!(
            policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe") && !policy.contains('*'),
            "{policy}"
        );
        assert_eq!(said.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(said.header("referrer-policy"), Some("no-referrer"));
        if path != "/" {
            assert_eq!(said.header("cache-control"), Some("public, max-age=31536000, immutable"));
        }
        let tag = said.header("etag").expect("a tag");
        let again = served.ask(&Ask::get(path).with("If-None-Match", tag));
        assert_eq!((again.status, again.body.as_str()), (304, ""), "{path}");
        assert_eq!(served.ask(&Ask::get(path).with("If-None-Match", "\"another\"")).status, 200);
    }
    assert!(!page.body.contains("<style") && !page.body.contains("//cdn"), "{}", page.body);
}
