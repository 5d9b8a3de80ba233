//! The repair desk: worker and schemas together. What leaves it is a message that may be sent.

use dlo_core::message::Message;

use super::same::is_laid_out_anew;
use super::{Limits, json};
use super::{RepairError, Repaired, Repairer, Schemas, Subject, WorkerCommand};

/// What the office is told about repairs.
#[derive(Debug, Clone, Default)]
pub struct RepairConfig {
    /// How a worker is started; `None`: this office does not run expressions.
    pub worker: Option<WorkerCommand>,
    pub limits: Limits,
    pub schemas: Schemas,
}

/// Worker and schemas. Without either it refuses every expression and takes every payload.
#[derive(Debug, Default)]
pub struct RepairDesk {
    repairer: Option<Repairer>,
    schemas: Schemas,
}

/// A message after its repair, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mended {
    pub repaired: Repaired,
    /// Whether there was a schema to fit.
    pub schema: bool,
}

impl RepairDesk {
    pub fn new(config: RepairConfig) -> Self {
        let repairer = config.worker.map(|worker| Repairer::new(worker, config.limits));
        Self { repairer, schemas: config.schemas }
    }

    /// Whether an expression is understood.
    pub async fn check(&self, expression: &str) -> Result<(), RepairError> {
        self.repairer()?.check(expression).await
    }

    /// Runs the expression over each message and checks what comes out: one answer each, in their order. A refusal says
    /// why, without any value of the message.
    pub async fn apply(
        &self,
        expression: &str,
        subjects: &[Subject<'_>],
    ) -> Result<Vec<Result<Mended, String>>, RepairError> {
        let answers = self.repairer()?.apply(expression, subjects).await?;
        let checked = answers.into_iter().zip(subjects).map(|(answer, subject)| self.fit(answer?, subject));
        Ok(checked.collect())
    }

    /// The same for copies of messages, in which other values are in the place of masked ones.
    pub(super) async fn apply_to_copies(
        &self,
        expression: &str,
        copies: &[Subject<'_>],
    ) -> Result<Vec<Result<Mended, String>>, RepairError> {
        let answers = self.repairer()?.apply(expression, copies).await?;
        let fit = |repaired: Repaired, copy: &Subject<'_>| {
            let schema = match &repaired {
                Repaired::Same => false,
                Repaired::Changed(message) => {
                    let (before, after) = (&copy.message.payload.0, &message.payload.0);
                    self.schemas.check_copy(copy.facts.source, copy.facts.event_type, before, after)?
                }
            };
            Ok(Mended { repaired, schema })
        };
        Ok(answers.into_iter().zip(copies).map(|(answer, copy)| fit(answer?, copy)).collect())
    }

    /// The same for a payload that was edited as a whole. Of a message with masked parts every payload is a change: that it
    /// is the same would confirm a guess.
    pub fn edit(
        &self,
        subject: &Subject<'_>,
        payload: Vec<u8>,
        is_json: bool,
        is_masked: bool,
    ) -> Result<Mended, String> {
        use dlo_core::limits::PAYLOAD;
        if payload.len() > PAYLOAD {
            return Err(format!("a payload has at most {PAYLOAD} bytes"));
        }
        let original = &subject.message.payload.0;
        let was_json = json::read(original).is_ok();
        if is_json || was_json {
            json::read(&payload)
                .map_err(|cause| format!("the letter holds JSON, and the new payload: {cause}"))?;
        }
        let same = if was_json { is_laid_out_anew(original, &payload) } else { payload == original[..] };
        let message = Message { payload: payload.into(), ..subject.message.clone() };
        self.fit(if same && !is_masked { Repaired::Same } else { Repaired::Changed(message) }, subject)
    }

    /// A letter that did not change is not compared: it is sent as it was captured, or not at all.
    fn fit(&self, repaired: Repaired, subject: &Subject<'_>) -> Result<Mended, String> {
        let schema = match &repaired {
            Repaired::Same => false,
            Repaired::Changed(message) => {
                let facts = subject.facts;
                self.schemas.check(facts.source, facts.event_type, &message.payload.0)?
            }
        };
        Ok(Mended { repaired, schema })
    }

    fn repairer(&self) -> Result<&Repairer, RepairError> {
        let absent =
            || RepairError::Worker(std::io::Error::other("this office has no worker for expressions"));
        self.repairer.as_ref().ok_or_else(absent)
    }
}
