use std::sync::Arc;
use std::time::Duration;

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::connect::{persist, settings, Ear, FOREIGN, PATIENCE};
use crate::records::Records;
use crate::result::Outcome;
use crate::step::Step;

/// Writes records 0 to records-1 in turn to all partitions and counts what was
/// acknowledged.
///
/// With txn, in transactions of per.txn records each; every abort.every-th one is
/// followed by one that holds foreign records and is aborted.
pub fn run(step: &Step, outcome: &Arc<Outcome>) -> Result<(), KafkaError> {
    let txn = step.get("txn", "");
    let topic = step.get("topic", "");
    let partitions = step.number("partitions", 6);
    let per_txn = step.number("per.txn", 1000);
    let abort_every = step.number("abort.every", 0);
    let series = Records::new(step);
    let mut conf = settings(
        step,
        &[
            ("acks", &step.get("acks", "all")),
            ("enable.idempotence", &step.get("idempotent", "true")),
            ("linger.ms", "5"),
        ],
    );
    if !txn.is_empty() {
        conf.set("transactional.id", &txn);
    }
    let producer = BaseProducer::from_config_and_context(
        &conf,
        Ear {
            counts: Some(outcome.clone()),
        },
    )?;
    if !txn.is_empty() {
        persist(|| producer.init_transactions(PATIENCE))?;
    }
    let (mut in_txn, mut txns) = (0, 0);
    for i in 0..step.number("records", 1) {
        if !txn.is_empty() && in_txn == 0 {
            producer.begin_transaction()?;
        }
        let key = series.key(i);
        send(
            &producer,
            &topic,
            (i % partitions) as i32,
            &key,
            &series.value(&key),
        )?;
        outcome.sent();
        in_txn += 1;
        if txn.is_empty() || in_txn < per_txn {
            continue;
        }
        in_txn = 0;
        persist(|| producer.commit_transaction(PATIENCE))?;
        txns += 1;
        if abort_every > 0 && txns % abort_every == 0 {
            producer.begin_transaction()?;
            for p in 0..partitions {
                send(&producer, &topic, p as i32, FOREIGN, FOREIGN)?;
            }
            producer.flush(PATIENCE)?;
            persist(|| producer.abort_transaction(PATIENCE))?;
        }
    }
    if !txn.is_empty() && in_txn > 0 {
        persist(|| producer.commit_transaction(PATIENCE))?;
    }
    producer.flush(PATIENCE)
}

/// Sends a record once there is room in the queue.
pub fn send(
    producer: &BaseProducer<Ear>,
    topic: &str,
    partition: i32,
    key: &[u8],
    value: &[u8],
) -> Result<(), KafkaError> {
    loop {
        producer.poll(Duration::ZERO);
        match producer.send(
            BaseRecord::to(topic)
                .partition(partition)
                .key(key)
                .payload(value),
        ) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {
                producer.poll(Duration::from_millis(100))
            }
            Err((e, _)) => return Err(e),
        }
    }
}
