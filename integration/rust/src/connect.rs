use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{DeliveryResult, ProducerContext};
use rdkafka::ClientContext;

use crate::result::Outcome;
use crate::step::Step;

pub const PATIENCE: Duration = Duration::from_secs(60);

/// The client's configuration: a certificate, and nothing else that says who it is.
pub fn settings(step: &Step, more: &[(&str, &str)]) -> ClientConfig {
    let mut conf = ClientConfig::new();
    for (key, value) in [
        ("bootstrap.servers", step.get("bootstrap", "")),
        ("security.protocol", "ssl".into()),
        ("ssl.ca.location", step.get("ca", "")),
        ("ssl.certificate.location", step.get("certificate", "")),
        ("ssl.key.location", step.get("key", "")),
    ] {
        conf.set(key, value);
    }
    for (key, value) in more {
        conf.set(*key, *value);
    }
    let raw: BTreeMap<_, _> = step.raw();
    if raw.contains_key("debug") {
        conf.set_log_level(RDKafkaLogLevel::Debug);
    }
    for (key, value) in raw {
        conf.set(key, value);
    }
    conf
}

/// What hears of a client: its log goes to standard error, what was acknowledged and what
/// was not to the outcome, while there is one that counts.
pub struct Ear {
    pub counts: Option<Arc<Outcome>>,
}

impl ClientContext for Ear {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        eprintln!("{facility} {message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        eprintln!("{error}: {reason}"); // no error of a call: librdkafka goes on by itself
    }
}

impl ConsumerContext for Ear {}

impl ProducerContext for Ear {
    type DeliveryOpaque = ();

    fn delivery(&self, told: &DeliveryResult<'_>, _: ()) {
        let Some(outcome) = &self.counts else { return };
        match told {
            Ok(m) if m.key() == Some(FOREIGN) => (),
            Ok(m) => outcome.acked(m.key().unwrap_or_default(), m.payload().unwrap_or_default()),
            Err((e, _)) => outcome.failed(e),
        }
    }
}

/// Key and value of records that are of no series.
pub const FOREIGN: &[u8] = b"aborted";

/// Calls until it succeeds or fails with what retrying does not cure.
pub fn persist(mut call: impl FnMut() -> Result<(), KafkaError>) -> Result<(), KafkaError> {
    let end = Instant::now() + 2 * PATIENCE;
    loop {
        match call() {
            Err(KafkaError::Transaction(e)) if e.is_retriable() && Instant::now() < end => (),
            other => return other,
        }
    }
}

/// What a member whose commit came too late for its generation is told.
pub fn overtaken(code: Option<RDKafkaErrorCode>) -> bool {
    use RDKafkaErrorCode::{IllegalGeneration, RebalanceInProgress, UnknownMemberId};
    matches!(
        code,
        Some(IllegalGeneration | RebalanceInProgress | UnknownMemberId)
    )
}
