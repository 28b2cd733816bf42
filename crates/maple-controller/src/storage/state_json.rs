//! Values of tracked state as JSON, for the control socket and for state files of format 1.
//!
//! `null`, booleans, numbers, strings and arrays are JSON's own. Other values are objects with one member:
//! `{"mac": "00:…"}`, `{"ip": "10.0.0.1"}`, `{"switch": "1"}`, `{"location": ["1", 3]}`, `{"bytes": "00ff"}`,
//! `{"map": [[key, value], …]}`, `{"float": "NaN"}`, and `{"int": "…"}` where a number exceeds JSON's range.

use std::sync::Arc;

use maple_core::network::Location;
use maple_core::state::{Float, Value as Stored};
use maple_wire::{Dpid, PortNo};
use serde_json::{Value, json};

/// Encodes a value of tracked state.
pub(crate) fn to_json(value: &Stored) -> Value {
    match value {
        Stored::None => Value::Null,
        Stored::Bool(truth) => json!(truth),
        Stored::Int(number) => {
            serde_json::Number::from_i128(*number).map_or_else(|| json!({ "int": number.to_string() }), Value::Number)
        }
        Stored::Float(number) => serde_json::Number::from_f64(number.get())
            .map_or_else(|| json!({ "float": number.get().to_string() }), Value::Number),
        Stored::Str(text) => Value::from(&**text),
        Stored::Bytes(bytes) => json!({ "bytes": hex::encode(bytes) }),
        Stored::Mac(mac) => json!({ "mac": mac.to_string() }),
        Stored::Ipv4(ip) => json!({ "ip": ip }),
        Stored::Ipv6(ip) => json!({ "ip": ip }),
        Stored::Switch(dpid) => json!({ "switch": dpid.to_string() }),
        Stored::Location(at) => json!({ "location": [at.switch.to_string(), at.port.0] }),
        Stored::Tuple(items) => items.iter().map(to_json).collect(),
        Stored::Map(map) => {
            json!({ "map": map.iter().map(|(key, value)| json!([to_json(key), to_json(value)])).collect::<Value>() })
        }
    }
}

/// Decodes a value of tracked state.
///
/// # Errors
/// A text that names the part of the JSON that is not a value.
pub(crate) fn from_json(value: &Value) -> Result<Stored, String> {
    Ok(match value {
        Value::Null => Stored::None,
        Value::Bool(truth) => Stored::Bool(*truth),
        Value::Number(number) => match number.as_i128() {
            Some(number) => Stored::Int(number),
            None => Stored::Float(Float::new(number.as_f64().ok_or_else(|| format!("{number} is too large"))?)),
        },
        Value::String(text) => Stored::from(text.as_str()),
        Value::Array(items) => Stored::Tuple(items.iter().map(from_json).collect::<Result<_, _>>()?),
        Value::Object(members) => match members.iter().next().filter(|_| members.len() == 1) {
            Some((kind, inner)) => {
                tagged(kind, inner).ok_or_else(|| format!("{value} is not a value of tracked state"))?
            }
            None => {
                return Err(format!("{value} is not a value of tracked state: an object must have exactly one member"));
            }
        },
    })
}

fn tagged(kind: &str, inner: &Value) -> Option<Stored> {
    let text = inner.as_str();
    Some(match kind {
        "int" => Stored::Int(text?.parse().ok()?),
        "float" => Stored::Float(Float::new(text?.parse().ok()?)),
        "mac" => Stored::Mac(text?.parse().ok()?),
        "ip" => match text?.parse().ok()? {
            std::net::IpAddr::V4(ip) => Stored::Ipv4(ip),
            std::net::IpAddr::V6(ip) => Stored::Ipv6(ip),
        },
        "switch" => Stored::Switch(parse_dpid(text?).ok()?),
        "location" => match inner.as_array()?.as_slice() {
            [switch, port] => {
                let number = port.as_u64().and_then(|port| u32::try_from(port).ok()).map(PortNo);
                let port = number.or_else(|| port.as_str()?.parse().ok())?;
                Stored::Location(Location::new(parse_dpid(switch.as_str()?).ok()?, port))
            }
            _ => return None,
        },
        "bytes" => Stored::Bytes(hex::decode(text?).ok()?.into()),
        "map" => {
            let pair = |pair: &Value| match pair.as_array()?.as_slice() {
                [key, value] => Some((from_json(key).ok()?, from_json(value).ok()?)),
                _ => None,
            };
            Stored::Map(Arc::new(inner.as_array()?.iter().map(pair).collect::<Option<_>>()?))
        }
        _ => return None,
    })
}

/// Parses a datapath id.
///
/// # Errors
/// A text that shows an example, if `text` is not a datapath id.
pub(crate) fn parse_dpid(text: &str) -> Result<Dpid, String> {
    text.parse().map_err(|_| format!("{text:?} is not a datapath id (hex digits, such as 1 or 00000000000000ab)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_a_round_trip_through_json() {
        let all = [
            Stored::None,
            Stored::Bool(true),
            Stored::Int(-5),
            Stored::Int(i128::MAX),
            Stored::Float(Float::new(1.5)),
            Stored::Float(Float::new(f64::NAN)),
            Stored::from("text"),
            Stored::Bytes([0, 255].into()),
            Stored::Mac("00:00:00:00:00:0a".parse().expect("an address")),
            Stored::Ipv4([10, 0, 0, 1].into()),
            Stored::Ipv6("fe80::1".parse().expect("an address")),
            Stored::Switch(Dpid(0xab)),
            Stored::Location(Location::new(Dpid(1), PortNo(3))),
            Stored::Tuple([Stored::Int(1), Stored::None].into()),
            Stored::Map(Arc::new([(Stored::Int(1), Stored::from("x"))].into())),
        ];
        for value in all {
            let text = to_json(&value).to_string();
            assert_eq!(from_json(&serde_json::from_str(&text).expect("JSON")), Ok(value), "{text}");
        }
    }

    #[test]
    fn a_reserved_port_may_have_its_name() {
        let at = Stored::Location(Location::new(Dpid(1), PortNo::LOCAL));
        assert_eq!(from_json(&json!({ "location": ["1", "LOCAL"] })), Ok(at));
    }

    #[test]
    fn invalid_json_is_refused_with_its_text() {
        for wrong in [r#"{"mac":"x"}"#, r#"{"a":1,"b":2}"#, r#"{"bytes":"0"}"#, r#"{"location":["1"]}"#, r#"{"ip":3}"#]
        {
            let error = from_json(&serde_json::from_str(wrong).expect("JSON")).expect_err(wrong);
            assert!(error.contains(wrong), "{error}");
        }
    }
}
