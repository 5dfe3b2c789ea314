use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

/// One step's mode and settings. Settings that nobody asked for are a mistake.
pub struct Step {
    pub mode: String,
    settings: BTreeMap<String, String>,
    used: RefCell<BTreeSet<String>>,
}

impl Step {
    pub fn parse(text: &str) -> Result<Step, String> {
        let told: Value = serde_json::from_str(text).map_err(|e| format!("step {text}: {e}"))?;
        let words = |v: &Value| {
            v.as_str()
                .map(String::from)
                .ok_or(format!("step {text}: no text"))
        };
        let mut settings = BTreeMap::new();
        for (key, value) in told["settings"]
            .as_object()
            .ok_or(format!("step {text}: no settings"))?
        {
            settings.insert(key.clone(), words(value)?);
        }
        Ok(Step {
            mode: words(&told["mode"])?,
            settings,
            used: RefCell::default(),
        })
    }

    pub fn get(&self, key: &str, otherwise: &str) -> String {
        self.used.borrow_mut().insert(key.into());
        self.settings
            .get(key)
            .map_or(otherwise, String::as_str)
            .into()
    }

    /// A setting that is a number; what is none ends the process.
    pub fn number(&self, key: &str, otherwise: u64) -> u64 {
        let text = self.get(key, &otherwise.to_string());
        text.parse()
            .unwrap_or_else(|e| panic!("{key}: {text}: {e}"))
    }

    pub fn seconds(&self, key: &str, otherwise: u64) -> Duration {
        Duration::from_secs(self.number(key, otherwise))
    }

    /// All settings that begin with "p.", without it: for the client as they are.
    pub fn raw(&self) -> BTreeMap<String, String> {
        let raw: BTreeMap<_, _> = self
            .settings
            .iter()
            .filter_map(|(k, v)| Some((k.strip_prefix("p.")?.into(), v.clone())))
            .collect();
        self.used
            .borrow_mut()
            .extend(raw.keys().map(|k: &String| format!("p.{k}")));
        raw
    }

    pub fn all_used(&self) -> Result<(), String> {
        let used = self.used.borrow();
        let unknown: Vec<_> = self
            .settings
            .keys()
            .filter(|k| !used.contains(*k) && !["certificate", "key", "ca"].contains(&k.as_str()))
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        Err(format!("{}: unknown settings {unknown:?}", self.mode))
    }
}
