use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Message, OwnedMessage};
use rdkafka::producer::{BaseProducer, Producer};

use crate::connect::{persist, settings, Ear, PATIENCE};
use crate::produce::send;
use crate::records::Records;
use crate::result::Outcome;
use crate::step::Step;

/// Copies a topic to another, exactly once: reads as a group, writes in transactions that
/// hold the group's offsets too, and ends when so many records are committed; counts
/// those. Every abort.every-th transaction is aborted first, and then done again.
pub fn run(step: &Step, outcome: &Arc<Outcome>) -> Result<(), KafkaError> {
    let group = step.get("group", "g");
    let txn = step.get("txn", "");
    let wanted = step.number("records", 1);
    let per_txn = step.number("per.txn", 1000) as usize;
    let abort_every = step.number("abort.every", 0);
    let deadline = Instant::now() + step.seconds("deadline.s", 120);
    let series = Records::new(step);
    let consumer = BaseConsumer::from_config_and_context(
        &settings(
            step,
            &[
                ("group.id", &group),
                ("auto.offset.reset", "earliest"),
                ("enable.auto.commit", "false"),
            ],
        ),
        Ear { counts: None },
    )?;
    let producer = BaseProducer::from_config_and_context(
        &settings(step, &[("transactional.id", &txn)]),
        Ear { counts: None },
    )?;
    let copy = Copy {
        to: step.get("to", ""),
        consumer,
        producer,
    };
    copy.consumer.subscribe(&[&step.get("topic", "")])?;
    persist(|| copy.producer.init_transactions(PATIENCE))?;
    let mut txns = 0;
    while outcome.count() < wanted && Instant::now() < deadline {
        let batch = copy.batch(per_txn)?;
        if batch.is_empty() {
            continue;
        }
        txns += 1;
        if abort_every > 0 && txns % abort_every == 0 {
            copy.write(&batch)?;
            copy.producer.flush(PATIENCE)?;
            persist(|| copy.producer.abort_transaction(PATIENCE))?;
            outcome.noted("aborted");
        }
        copy.write(&batch)?;
        persist(|| copy.producer.commit_transaction(PATIENCE))?;
        for m in &batch {
            outcome.read(
                &series,
                m.key().unwrap_or_default(),
                m.payload().unwrap_or_default(),
            );
        }
    }
    Ok(())
}

struct Copy {
    to: String,
    consumer: BaseConsumer<Ear>,
    producer: BaseProducer<Ear>,
}

impl Copy {
    fn batch(&self, at_most: usize) -> Result<Vec<OwnedMessage>, KafkaError> {
        let mut batch = Vec::new();
        while batch.len() < at_most {
            match self.consumer.poll(Duration::from_millis(200)) {
                Some(message) => batch.push(message?.detach()),
                None => break,
            }
        }
        Ok(batch)
    }

    /// A transaction up to its end.
    fn write(&self, batch: &[OwnedMessage]) -> Result<(), KafkaError> {
        self.producer.begin_transaction()?;
        for m in batch {
            send(
                &self.producer,
                &self.to,
                m.partition(),
                m.key().unwrap_or_default(),
                m.payload().unwrap_or_default(),
            )?;
        }
        let group = self.consumer.group_metadata().ok_or(KafkaError::Canceled)?;
        let at = self.consumer.position()?;
        persist(|| {
            self.producer
                .send_offsets_to_transaction(&at, &group, PATIENCE)
        })
    }
}
