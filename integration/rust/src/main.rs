//! A Kafka client in Rust, rdkafka, for the integration tests:
//!
//!     client CLIENT STEP...
//!
//! CLIENT is rdkafka. A STEP is JSON, {"mode": MODE, "settings": {KEY: TEXT, ...}}; they
//! are done one after the other, in one process, and for each a line of JSON is printed
//! (result.rs). The modes and their settings are those of ../python. What librdkafka logs
//! goes to standard error. Exits with 0 once all steps are done, whatever they saw: the
//! tests judge.

mod admin;
mod connect;
mod consume;
mod produce;
mod records;
mod result;
mod step;
mod transform;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use rdkafka::error::KafkaError;

use crate::result::Outcome;
use crate::step::Step;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<(), String> {
    let [client, texts @ ..] = words else {
        return Err("client CLIENT STEP...".into());
    };
    if client != "rdkafka" {
        return Err(format!("unknown client {client}"));
    }
    for text in texts {
        let step = Step::parse(text)?;
        let mode: fn(&Step, &Arc<Outcome>) -> Result<(), KafkaError> = match step.mode.as_str() {
            "produce" => produce::run,
            "consume" => consume::run,
            "transform" => transform::run,
            "describe" => admin::describe,
            "topics" => admin::topics,
            other => return Err(format!("unknown mode {other}")),
        };
        let outcome = Arc::new(Outcome::new(&step.mode));
        let began = Instant::now();
        if let Err(e) = mode(&step, &outcome) {
            outcome.failed(&e);
        } else {
            step.all_used()?;
        }
        println!("{}", outcome.to_json(began.elapsed()));
    }
    Ok(())
}
