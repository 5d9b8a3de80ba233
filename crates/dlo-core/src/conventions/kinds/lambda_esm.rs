//! AWS Lambda's event source mapping: a record that stands for a batch of Kinesis, DynamoDB or Kafka records. Without a payload
//! (SQS, SNS) it says where they are, at most a thousand of them one by one; shards of AWS have no numbers for
//! offsets, so a batch of theirs is named by shard and first sequence number.

use super::super::Reading;
use super::super::body::{Body, inside};
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use super::super::{BATCH, Held};
use crate::origin::{BrokerKind, Origin};
use crate::reason::Reason;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "lambda.esm",
    writer: Writer::Client,
    marks: &[
        Mark::Field("KafkaBatchInfo"),
        Mark::Field("KinesisBatchInfo"),
        Mark::Field("DDBStreamBatchInfo"),
    ],
    strip: &[],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let condition = view.field("requestContext.condition").class()?;
    let (held, left_out) = match view.body()?.field("KafkaBatchInfo").and_then(inside) {
        Some(info) => kafka(view, &info),
        None => (Held::Whole, 0),
    };
    let origin = match &held {
        Held::Batch(records) => records.first().cloned(),
        Held::Pointer(record) => Some(record.clone()),
        Held::Whole => shard(view),
    };
    Some(Reading {
        origin,
        held,
        left_out,
        consumer: function(view.field("requestContext.functionArn").text()),
        consumer_version: view.field("responseContext.executedVersion").name(),
        reason: Some(reason(&condition)),
        error_class: view.field("responseContext.functionError").class(),
        error_message: Some(condition.clone()),
        error_code: Some(condition),
        attempts: view.field("requestContext.approximateInvokeCount").count(),
        failed_at: view.field("timestamp").time(),
        published_at: first_arrival(view),
        ..Reading::default()
    })
}

fn reason(condition: &str) -> Reason {
    match condition {
        "RetryAttemptsExhausted" | "RetriesExhausted" | "EventAttemptsExhausted" => {
            Reason::MaxRetriesExceeded
        }
        "MaximumPayloadSizeExceeded" => Reason::Rejected,
        aged if aged.contains("Age") => Reason::Expired,
        _ => Reason::ProcessingError,
    }
}

/// Every record of every `<topic>-<partition>` range, as far as the bound goes, and how many lie beyond.
fn kafka(view: &View<'_>, info: &Body<'_>) -> (Held, u64) {
    let Some(ranges) = info.field("recordsInfo").and_then(inside) else { return (Held::Whole, 0) };
    let mut records = Vec::new();
    let mut left_out = 0_u64;
    for (name, range) in ranges.fields() {
        let Some((topic, partition)) = name.rsplit_once('-') else { continue };
        let (Ok(partition), Some(range)) = (partition.parse::<i32>(), inside(range)) else { continue };
        let first = view.raw(range.field("firstRecordOffset")).decimal();
        let last = view.raw(range.field("lastRecordOffset")).decimal();
        let (Some(first), Some(last)) = (first.filter(|first| *first >= 0), last) else { continue };
        if last < first || topic.len() > crate::limits::NAME || partition < 0 {
            continue;
        }
        let room = i64::try_from(BATCH - records.len()).unwrap_or(0);
        let end = last.min(first.saturating_add(room).saturating_sub(1));
        records.extend((first..=end).map(|offset| Origin::log(BrokerKind::Kafka, topic, partition, offset)));
        left_out = left_out.saturating_add(last.abs_diff(end.max(first - 1)));
    }
    if records.is_empty() { (Held::Whole, left_out) } else { (Held::Batch(records), left_out) }
}

fn shard(view: &View<'_>) -> Option<Origin> {
    let info = |name: &str| {
        view.field(&format!("KinesisBatchInfo.{name}")).or(view.field(&format!("DDBStreamBatchInfo.{name}")))
    };
    let arn = info("streamArn").or(view.field("KafkaBatchInfo.eventSourceArn"));
    // `…:stream/orders`, and `…:table/orders/stream/<time>` for DynamoDB.
    let (_, path) = arn.text()?.split_once(":table/").or_else(|| arn.text()?.split_once('/'))?;
    let stream = path.split('/').next().unwrap_or(path);
    let id = info("shardId")
        .text()
        .zip(info("startSequenceNumber").text())
        .map(|(shard, first)| format!("{shard}/{first}"));
    let id = id.filter(|id| id.len() <= crate::limits::ID);
    (!stream.is_empty() && stream.len() <= crate::limits::NAME)
        .then(|| Origin { message_id: id, ..Origin::queue(view.found.broker, stream) })
}

fn first_arrival(view: &View<'_>) -> Option<crate::time::Timestamp> {
    view.field("KinesisBatchInfo.approximateArrivalOfFirstRecord")
        .or(view.field("DDBStreamBatchInfo.approximateArrivalOfFirstRecord"))
        .time()
}

/// The function's name: `orders` of `arn:aws:lambda:region:account:function:orders:version`.
pub(super) fn function(arn: Option<&str>) -> Option<String> {
    let name = arn?.split(":function:").nth(1)?.split(':').next()?;
    (!name.is_empty() && name.len() <= crate::limits::NAME).then(|| name.to_owned())
}
