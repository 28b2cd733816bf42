//! The parameters of the path and of the query.

use std::collections::BTreeMap;

use axum::extract::RawPathParams;
use axum::extract::rejection::RawPathParamsRejection;
use axum::http::StatusCode;
use percent_encoding::percent_decode_str;

use super::problem::Problem;

/// Reads the parameters of a path.
///
/// # Errors
/// [`Problem`] if one is empty or not UTF-8.
pub(super) fn in_path(
    parameters: Result<RawPathParams, RawPathParamsRejection>,
) -> Result<BTreeMap<String, String>, Problem> {
    let parameters = parameters.map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error.body_text()))?;
    let mut all = BTreeMap::new();
    for (name, value) in &parameters {
        if value.is_empty() {
            return Err(Problem::field(StatusCode::NOT_FOUND, name, format!("{name}: it is missing in the path")));
        }
        all.insert(name.to_owned(), value.to_owned());
    }
    Ok(all)
}

/// Reads the parameters of a query, `name=value` with `&` between them.
///
/// # Errors
/// [`Problem`] if one is not UTF-8 or is there twice.
pub(super) fn in_query(query: &str) -> Result<BTreeMap<String, String>, Problem> {
    let mut all = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name)?, decoded(value)?);
        if all.contains_key(&name) {
            return Err(Problem::field(StatusCode::BAD_REQUEST, &name, format!("{name}: it is there twice")));
        }
        all.insert(name, value);
    }
    Ok(all)
}

fn decoded(text: &str) -> Result<String, Problem> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    let wrong = |_| Problem::new(StatusCode::BAD_REQUEST, "the query is not UTF-8 with percent-encoding");
    decoded.map(|text| text.into_owned()).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_decoded_and_says_each_thing_once() {
        let read = in_query("a=1%202&b=x+y&c&&d=%C3%A4=").expect("it is right");
        let expected = [("a", "1 2"), ("b", "x y"), ("c", ""), ("d", "ä=")];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        assert!(in_query("a=1&a=2").is_err());
        assert!(in_query("a=%ff").is_err());
    }
}
