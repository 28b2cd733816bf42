//! The address of etcd, with the part of its keys that is meant: `etcd://HOST:PORT,HOST:PORT/NAME`.

use std::fmt;
use std::str::FromStr;

/// The port on which etcd serves its clients.
const CLIENT_PORT: u16 = 2379;
/// Maximum number of endpoints. Chosen: clusters of etcd have three to seven members, and a request tries each in turn.
const MAX_ENDPOINTS: usize = 16;

/// Host and port of one etcd server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// A name or an address; one of IPv6 has no brackets here.
    pub host: String,
    /// The port for clients.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for Endpoint {
    type Err = AddressError;

    /// Parses `HOST`, `HOST:PORT`, `[ADDRESS]` or `[ADDRESS]:PORT`. Without a port it is 2379.
    fn from_str(text: &str) -> Result<Endpoint, AddressError> {
        let error = || AddressError::Endpoint(text.to_owned());
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(error)?;
                host.parse::<std::net::Ipv6Addr>().map_err(|_| error())?;
                (host, if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or_else(error)?) })
            }
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if host.is_empty() || !(host.chars().all(is_name) || text.starts_with('[')) {
            return Err(error());
        }
        let port = port.map_or(Ok(CLIENT_PORT), |port| port.parse().map_err(|_| error()))?;
        if port == 0 {
            return Err(error());
        }
        Ok(Endpoint { host: host.to_owned(), port })
    }
}

/// The servers of one etcd, and a name, so that several clusters can share them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The servers, in the order in which they are tried; at least one, at most 16.
    pub endpoints: Vec<Endpoint>,
    /// The name: letters, digits, `-`, `_` and `.`.
    pub name: String,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoints: Vec<_> = self.endpoints.iter().map(Endpoint::to_string).collect();
        write!(f, "etcd://{}/{}", endpoints.join(","), self.name)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        // No part of it is shown: whatever is there before the `@` may be a password.
        if text.contains('@') {
            return Err(AddressError::Credentials);
        }
        let rest = text.strip_prefix("etcd://").ok_or_else(|| AddressError::Scheme(text.to_owned()))?;
        let (endpoints, name) = rest.split_once('/').unwrap_or((rest, ""));
        let endpoints = endpoints.split(',').map(str::parse).collect::<Result<Vec<Endpoint>, _>>()?;
        if endpoints.len() > MAX_ENDPOINTS {
            return Err(AddressError::TooMany(endpoints.len()));
        }
        if let Some(twice) = endpoints.iter().enumerate().find(|(at, one)| endpoints[..*at].contains(one)) {
            return Err(AddressError::Twice(twice.1.clone()));
        }
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || !name.chars().all(is_allowed) {
            return Err(AddressError::Name(name.to_owned()));
        }
        Ok(Address { endpoints, name: name.to_owned() })
    }
}

/// The reason why a text is not an address of etcd.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The address has an `@`, before which other addresses have user and password. Here they are options.
    #[error("an address of etcd has no user and no password, and so no `@`")]
    Credentials,
    /// The text does not begin with `etcd://`.
    #[error("`{0}` is not etcd://HOST:PORT,…/NAME")]
    Scheme(String),
    /// Something between the commas is not a host with a port.
    #[error("`{0}` is not HOST:PORT")]
    Endpoint(String),
    /// One server is there twice.
    #[error("{0} is there twice")]
    Twice(Endpoint),
    /// The address names more servers than a client tries.
    #[error("{0} servers are more than {MAX_ENDPOINTS}")]
    TooMany(usize),
    /// The name is missing, or has other characters.
    #[error(
        "`{0}` is not a name: it has to follow the servers, as in etcd://HOST:PORT/NAME, and may have letters, digits, `-`, `_` and `.`"
    )]
    Name(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_servers_and_a_name() {
        let address: Address = "etcd://a:1,b,[::1]:3,[fe80::1]/campus".parse().unwrap();
        let shown: Vec<_> = address.endpoints.iter().map(Endpoint::to_string).collect();
        assert_eq!(shown, ["a:1", "b:2379", "[::1]:3", "[fe80::1]:2379"]);
        assert_eq!(address.name, "campus");
        assert_eq!(address.to_string().parse(), Ok(address));
    }

    #[test]
    fn each_mistake_in_an_address_is_named() {
        let error = |text: &str| text.parse::<Address>().unwrap_err().to_string();
        assert_eq!(error("http://a:1/x"), "`http://a:1/x` is not etcd://HOST:PORT,…/NAME");
        for wrong in ["a:", "a:x", "a:0", "a:70000", "", ":1", "[x]:1", "[::1", "[::1]1", "::1", "a b"] {
            assert_eq!(error(&format!("etcd://{wrong}/x")), format!("`{wrong}` is not HOST:PORT"));
        }
        for address in ["etcd://u:secret@a/x", "http://u:secret@a/x", "etcd://u:se/cret@a/x", "etcd://a/secret@x"] {
            assert_eq!(error(address), "an address of etcd has no user and no password, and so no `@`");
        }
        assert_eq!(error("etcd://a,b,a:2379/x"), "a:2379 is there twice");
        assert!(error("etcd://a").starts_with("`` is not a name"), "{}", error("etcd://a"));
        assert!(error("etcd://a/x/y").starts_with("`x/y` is not a name"));
        let many: Vec<_> = (1..=17).map(|n| format!("h{n}")).collect();
        assert_eq!(error(&format!("etcd://{}/x", many.join(","))), "17 servers are more than 16");
    }
}
