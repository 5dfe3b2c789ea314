use std::sync::Arc;

use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::KafkaError;

use crate::connect::{settings, Ear, PATIENCE};
use crate::result::Outcome;
use crate::step::Step;

fn admin(step: &Step) -> Result<AdminClient<Ear>, KafkaError> {
    AdminClient::from_config_and_context(&settings(step, &[]), Ear { counts: None })
}

/// Asks for everything that has a broker's address in its answer, and for the topics that
/// may be seen. The library tells nobody a coordinator's address.
pub fn describe(step: &Step, outcome: &Arc<Outcome>) -> Result<(), KafkaError> {
    let (topic, group) = (step.get("topic", ""), step.get("group", ""));
    let admin = admin(step)?;
    let metadata = admin.inner().fetch_metadata(None, PATIENCE)?;
    let mut ids = Vec::new();
    for b in metadata.brokers() {
        outcome.node(b.host(), b.port());
        ids.push(b.id());
    }
    ids.sort_unstable();
    outcome.value(
        "brokers",
        ids.iter().map(i32::to_string).collect::<Vec<_>>().join(" "),
    );
    let mut names: Vec<_> = metadata.topics().iter().map(|t| t.name()).collect();
    names.sort_unstable();
    outcome.value("topics", names.join(" "));
    for t in metadata.topics().iter().filter(|t| t.name() == topic) {
        for p in t.partitions() {
            outcome.value(format!("leader-{}", p.id()), p.leader().to_string());
        }
    }
    for g in admin
        .inner()
        .fetch_group_list(Some(&group), PATIENCE)?
        .groups()
    {
        outcome.value("group", g.state());
    }
    Ok(())
}

/// Makes or deletes a topic, as action says. How that was refused stands in errors.
pub fn topics(step: &Step, outcome: &Arc<Outcome>) -> Result<(), KafkaError> {
    let (topic, action) = (step.get("topic", ""), step.get("action", ""));
    let admin = admin(step)?;
    let options = AdminOptions::new().request_timeout(Some(PATIENCE));
    let answers = match action.as_str() {
        "create" => {
            let replicas = TopicReplication::Fixed(step.number("replicas", 3) as i32);
            let new = NewTopic::new(&topic, step.number("partitions", 6) as i32, replicas);
            block_on(admin.create_topics(&[new], &options))?
        }
        "delete" => block_on(admin.delete_topics(&[&topic], &options))?,
        other => panic!("unknown action {other}"),
    };
    for answer in answers {
        match answer {
            Ok(_) => outcome.done(),
            Err((_, code)) => outcome.failed(&KafkaError::AdminOp(code)),
        }
    }
    Ok(())
}
