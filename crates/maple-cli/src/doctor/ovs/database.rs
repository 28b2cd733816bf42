//! Rows of Open vSwitch's database, as `ovs-vsctl --format=json list` prints them (RFC 7047, 5.1).

use std::collections::BTreeMap;

use serde_json::Value;

/// A row, by the names of its columns.
#[derive(Clone, Debug, Default)]
pub struct DatabaseRow(BTreeMap<String, Value>);

/// Parses the rows of a table.
///
/// # Errors
/// If the text is not a table.
pub fn rows(text: &str) -> Result<Vec<DatabaseRow>, String> {
    let wrong = || "ovs-vsctl printed something else than a table".to_owned();
    let table: Value = serde_json::from_str(text).map_err(|_| wrong())?;
    let names = table["headings"].as_array().ok_or_else(wrong)?;
    let row = |values: &Value| {
        let values = values.as_array().ok_or_else(wrong)?;
        let named =
            names.iter().zip(values).filter_map(|(name, value)| Some((name.as_str()?.to_owned(), value.clone())));
        Ok(DatabaseRow(named.collect()))
    };
    table["data"].as_array().ok_or_else(wrong)?.iter().map(row).collect()
}

impl DatabaseRow {
    /// Returns the values of a column: the members of a set, or the single value.
    fn values(&self, name: &str) -> Vec<&Value> {
        match self.0.get(name) {
            None => Vec::new(),
            Some(Value::Array(pair)) if pair.first().is_some_and(|kind| kind == "set") => {
                pair.get(1).and_then(Value::as_array).into_iter().flatten().collect()
            }
            Some(value) => vec![value],
        }
    }

    /// Returns the texts of a column.
    pub fn texts(&self, name: &str) -> Vec<String> {
        self.values(name).into_iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Returns the text of a column; `None` if it is missing or empty.
    pub fn text(&self, name: &str) -> Option<String> {
        self.texts(name).into_iter().next().filter(|text| !text.is_empty())
    }

    /// Returns the number of a column.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.values(name).first().and_then(|value| value.as_i64())
    }

    /// Reports whether a column is true.
    pub fn is(&self, name: &str) -> bool {
        self.values(name).first().is_some_and(|value| **value == Value::Bool(true))
    }

    /// Returns the ids of rows to which a column refers.
    pub fn ids(&self, name: &str) -> Vec<String> {
        let id = |value: &Value| (value[0] == "uuid").then(|| value[1].as_str().map(str::to_owned))?;
        self.values(name).into_iter().filter_map(id).collect()
    }

    /// Returns the id of this row.
    pub fn id(&self) -> String {
        self.ids("_uuid").into_iter().next().unwrap_or_default()
    }

    /// Returns the rows of a map, each with its number as the key.
    pub fn numbered_ids(&self, name: &str) -> Vec<(i64, String)> {
        let one = |pair: &Value| Some((pair[0].as_i64()?, pair[1][1].as_str()?.to_owned()));
        self.map(name).iter().filter_map(one).collect()
    }

    /// Returns the value of a map's key.
    pub fn entry(&self, name: &str, key: &str) -> Option<String> {
        let pair = self.map(name).iter().find(|pair| pair[0] == key)?;
        pair[1].as_str().map(str::to_owned)
    }

    fn map(&self, name: &str) -> &[Value] {
        match self.0.get(name) {
            Some(Value::Array(pair)) if pair.first().is_some_and(|kind| kind == "map") => {
                pair.get(1).and_then(Value::as_array).map_or(&[], Vec::as_slice)
            }
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_values_sets_and_maps() {
        let text = r#"{"headings":["_uuid","name","protocols","fail_mode","controller","other_config","mtu","stp_enable","flow_tables"],
            "data":[[["uuid","61ab"],"s1",["set",["OpenFlow10","OpenFlow13"]],["set",[]],["uuid","5eb3"],
                ["map",[["datapath-id","0000000000000001"]]],1500,true,["map",[[1,["uuid","77"]]]]]]}"#;
        let rows = rows(text).expect("a table");
        let row = &rows[0];
        assert_eq!((row.id(), row.text("name")), ("61ab".to_owned(), Some("s1".to_owned())));
        assert_eq!(row.texts("protocols"), ["OpenFlow10", "OpenFlow13"]);
        assert_eq!((row.text("fail_mode"), row.number("mtu"), row.number("fail_mode")), (None, Some(1500), None));
        assert_eq!(
            (row.ids("controller"), row.is("stp_enable"), row.is("rstp_enable")),
            (vec!["5eb3".to_owned()], true, false)
        );
        assert_eq!(row.entry("other_config", "datapath-id").as_deref(), Some("0000000000000001"));
        assert_eq!((row.entry("other_config", "vlan-limit"), row.entry("name", "s1")), (None, None));
        assert_eq!(row.numbered_ids("flow_tables"), [(1, "77".to_owned())]);
    }

    #[test]
    fn text_that_is_not_a_table_is_refused() {
        for text in ["", "[]", "{\"headings\":[]}", "{\"headings\":[\"a\"],\"data\":[1]}"] {
            assert!(rows(text).is_err(), "{text}");
        }
    }
}
