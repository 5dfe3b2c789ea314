use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::config::{ClientConfig, FromClientConfigAndContext};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;

use crate::connect::{overtaken, settings, Ear};
use crate::records::Records;
use crate::result::Outcome;
use crate::step::Step;

/// Reads a topic as a group of several members, until so many records were seen or none
/// came for quiet.ms; deadline.s bounds it all. Commits that a rebalance overtook are
/// noted as "overtaken": then records may have come twice. protocol is classic or consumer
/// (KIP-848).
pub fn run(step: &Step, outcome: &Arc<Outcome>) -> Result<(), KafkaError> {
    let conf = settings(
        step,
        &[
            ("group.id", &step.get("group", "g")),
            ("group.protocol", &step.get("protocol", "classic")),
            ("isolation.level", &step.get("isolation", "read_committed")),
            ("auto.offset.reset", "earliest"),
            ("enable.auto.commit", "false"),
        ],
    );
    let reading = Reading {
        topic: step.get("topic", ""),
        wanted: step.number("records", 0),
        quiet: Duration::from_millis(step.number("quiet.ms", 10_000)),
        deadline: Instant::now() + step.seconds("deadline.s", 120),
        last: Mutex::new(Instant::now()),
        series: Records::new(step),
        outcome,
    };
    thread::scope(|scope| {
        for _ in 0..step.number("members", 1) {
            scope.spawn(|| {
                if let Err(e) = reading.member(&conf) {
                    outcome.failed(&e);
                }
            });
        }
    });
    Ok(())
}

struct Reading<'a> {
    topic: String,
    wanted: u64,
    quiet: Duration,
    deadline: Instant,
    last: Mutex<Instant>, // when a record came
    series: Records,
    outcome: &'a Outcome,
}

impl Reading<'_> {
    fn over(&self) -> bool {
        let quiet = *self.last.lock().expect("nothing panics with the lock") + self.quiet;
        Instant::now() > self.deadline.min(quiet)
            || self.wanted > 0 && self.outcome.count() >= self.wanted
    }

    fn member(&self, conf: &ClientConfig) -> Result<(), KafkaError> {
        let consumer = BaseConsumer::from_config_and_context(conf, Ear { counts: None })?;
        consumer.subscribe(&[&self.topic])?;
        while !self.over() {
            let mut came = 0;
            while let Some(message) =
                consumer.poll(Duration::from_millis(if came == 0 { 200 } else { 0 }))
            {
                let message = message?;
                self.outcome.read(
                    &self.series,
                    message.key().unwrap_or_default(),
                    message.payload().unwrap_or_default(),
                );
                came += 1;
                if came == 1000 {
                    break;
                }
            }
            if came > 0 {
                *self.last.lock().expect("nothing panics with the lock") = Instant::now();
                match consumer.commit_consumer_state(CommitMode::Sync) {
                    Err(e) if overtaken(e.rdkafka_error_code()) => self.outcome.noted("overtaken"),
                    Err(e) if e.rdkafka_error_code() != Some(RDKafkaErrorCode::NoOffset) => {
                        return Err(e)
                    }
                    _ => (),
                }
            }
        }
        Ok(())
    }
}
