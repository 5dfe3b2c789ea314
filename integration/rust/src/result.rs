use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use rdkafka::error::KafkaError;
use serde_json::json;

use crate::records::{checksum, Records};

/// What is printed of a step.
pub struct Outcome {
    mode: String,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    count: u64,
    sum: u64,
    duplicates: u64,
    foreign: u64,
    sent: u64,
    errors: BTreeMap<String, u64>, // name -> how often
    fatal: Vec<String>,            // errors that retrying does not cure
    messages: Vec<String>,         // of the errors
    nodes: BTreeSet<String>,       // host:port of every node seen
    values: BTreeMap<String, String>,
    indices: HashSet<u64>,
}

impl Outcome {
    pub fn new(mode: &str) -> Outcome {
        Outcome {
            mode: mode.into(),
            seen: Mutex::default(),
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Seen) -> T) -> T {
        change(&mut self.seen.lock().expect("nothing panics with the lock"))
    }

    /// Notes an error, which retrying has not cured.
    pub fn failed(&self, error: &KafkaError) {
        let name = error
            .rdkafka_error_code()
            .map_or_else(|| error.to_string(), |code| format!("{code:?}"));
        self.with(|s| {
            *s.errors.entry(name).or_default() += 1;
            if s.messages.len() < 20 {
                s.messages.push(error.to_string());
                s.fatal.push(error.to_string());
            }
        });
    }

    /// Counts something that is worth knowing and no error.
    pub fn noted(&self, what: &str) {
        self.with(|s| {
            let n = s
                .values
                .get(what)
                .and_then(|n| n.parse::<u64>().ok())
                .unwrap_or(0);
            s.values.insert(what.into(), (n + 1).to_string());
        });
    }

    pub fn value(&self, name: impl Into<String>, value: impl Into<String>) {
        self.with(|s| s.values.insert(name.into(), value.into()));
    }

    pub fn node(&self, host: &str, port: i32) {
        self.with(|s| {
            s.nodes.insert(format!("{host}:{port}"));
            s.count += 1;
        });
    }

    pub fn done(&self) {
        self.with(|s| s.count += 1);
    }

    pub fn sent(&self) {
        self.with(|s| s.sent += 1);
    }

    /// Counts a record that was acknowledged.
    pub fn acked(&self, key: &[u8], value: &[u8]) {
        self.with(|s| {
            s.count += 1;
            s.sum += checksum(key, value);
        });
    }

    /// Counts a record that was read, if it is of the series and new.
    pub fn read(&self, of: &Records, key: &[u8], value: &[u8]) {
        let index = of.index(key, value);
        self.with(|s| match index {
            None => s.foreign += 1,
            Some(i) if !s.indices.insert(i) => s.duplicates += 1,
            Some(_) => {
                s.count += 1;
                s.sum += checksum(key, value);
            }
        });
    }

    pub fn count(&self) -> u64 {
        self.with(|s| s.count)
    }

    pub fn to_json(&self, took: Duration) -> String {
        self.with(|s| {
            json!({
                "mode": self.mode, "count": s.count, "sum": s.sum, "duplicates": s.duplicates, "foreign": s.foreign,
                "sent": s.sent, "millis": took.as_millis() as u64, "errors": s.errors, "fatal": s.fatal,
                "messages": s.messages, "nodes": s.nodes, "values": s.values,
            })
            .to_string()
        })
    }
}
