//! What librdkafka shows only to C, wrapped: the id of a topic, and headers and metadata as the bytes they are.
//!
//! One of the two modules of the workspace with unsafe code. Three functions leave it; they take safe values, copy
//! what they return, and free what they made before they end.

#![expect(
    unsafe_code,
    reason = "rdkafka shows no topic ids, and stops the process at text that is not UTF-8"
)]

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::time::{Duration, Instant};

use rdkafka::client::{Client, ClientContext};
use rdkafka::message::BorrowedMessage;
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};
use rdkafka_sys::bindings as c;

/// A topic as the cluster describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TopicDescription {
    /// Another one after the topic was deleted and created again. `None` on clusters older than topic ids.
    pub(super) id: Option<String>,
    /// Partition numbers, in their order.
    pub(super) partitions: Vec<i32>,
    /// The smallest number of copies that any partition has.
    pub(super) replication: u32,
}

/// Asks the cluster for one topic; never creates it. Blocks for up to `patience`.
pub(super) fn describe_topic<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    patience: Duration,
) -> Result<TopicDescription, RDKafkaErrorCode> {
    let name = CString::new(topic).map_err(|_| RDKafkaErrorCode::InvalidTopic)?;
    let mut names = [name.as_ptr()];
    let millis = c_int::try_from(patience.as_millis()).unwrap_or(c_int::MAX);
    let handle = client.native_ptr();
    // SAFETY: `client` and `name` outlive the call. Collection, options and queue are made here and destroyed here, the
    // event after everything that was borrowed from it was copied. librdkafka keeps no pointer to any of them after
    // the queue is gone; a late answer is dropped by it.
    unsafe {
        let collection = c::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len());
        let options =
            c::rd_kafka_AdminOptions_new(handle, c::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS);
        let mut complaint: [c_char; 256] = [0; 256];
        c::rd_kafka_AdminOptions_set_request_timeout(
            options,
            millis,
            complaint.as_mut_ptr(),
            complaint.len(),
        );
        let queue = c::rd_kafka_queue_new(handle);
        c::rd_kafka_DescribeTopics(handle, collection, options, queue);
        let event = first_result(queue, patience);
        let described = if event.is_null() { Err(RDKafkaErrorCode::OperationTimedOut) } else { read(event) };
        if !event.is_null() {
            c::rd_kafka_event_destroy(event);
        }
        c::rd_kafka_queue_destroy(queue);
        c::rd_kafka_AdminOptions_destroy(options);
        c::rd_kafka_TopicCollection_destroy(collection);
        described
    }
}

/// # Safety
/// `queue` is a live queue.
unsafe fn first_result(queue: *mut c::rd_kafka_queue_t, patience: Duration) -> *mut c::rd_kafka_event_t {
    // A little more than the request itself may take: its own time-out is the better answer.
    let deadline = Instant::now() + patience + Duration::from_millis(500);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // SAFETY: the caller's promise.
        let event =
            unsafe { c::rd_kafka_queue_poll(queue, c_int::try_from(left.as_millis()).unwrap_or(c_int::MAX)) };
        if !event.is_null() || left.is_zero() {
            return event;
        }
    }
}

/// # Safety
/// `event` is a live event.
unsafe fn read(event: *mut c::rd_kafka_event_t) -> Result<TopicDescription, RDKafkaErrorCode> {
    // SAFETY: what is borrowed from the event is copied before it returns; counts are librdkafka's own.
    unsafe {
        let failed = c::rd_kafka_event_error(event);
        if failed != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(failed.into());
        }
        let result = c::rd_kafka_event_DescribeTopics_result(event);
        let mut count = 0;
        let topics = if result.is_null() {
            ptr::null_mut()
        } else {
            c::rd_kafka_DescribeTopics_result_topics(result, &raw mut count)
        };
        if topics.is_null() || count == 0 {
            return Err(RDKafkaErrorCode::UnknownTopicOrPartition);
        }
        let topic = *topics;
        let error = c::rd_kafka_error_code(c::rd_kafka_TopicDescription_error(topic));
        if error != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(error.into());
        }
        let id = c::rd_kafka_TopicDescription_topic_id(topic);
        let text = if id.is_null() { ptr::null() } else { c::rd_kafka_Uuid_base64str(id) };
        let none = id.is_null()
            || (c::rd_kafka_Uuid_most_significant_bits(id), c::rd_kafka_Uuid_least_significant_bits(id))
                == (0, 0);
        let id = (!none && !text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned());
        let infos = c::rd_kafka_TopicDescription_partitions(topic, &raw mut count);
        let (mut partitions, mut replication) = (Vec::with_capacity(count), u32::MAX);
        for at in 0..count {
            let info = *infos.add(at);
            let mut copies = 0;
            c::rd_kafka_TopicPartitionInfo_replicas(info, &raw mut copies);
            replication = replication.min(u32::try_from(copies).unwrap_or(u32::MAX));
            partitions.push(c::rd_kafka_TopicPartitionInfo_partition(info));
        }
        partitions.sort_unstable();
        Ok(TopicDescription { id, partitions, replication })
    }
}

/// Calls `each` with every header of `message`, in their order: name bytes, and value bytes where there is a value.
pub(super) fn each_header(message: &BorrowedMessage<'_>, mut each: impl FnMut(&[u8], Option<&[u8]>)) {
    let mut headers = ptr::null_mut();
    // SAFETY: the message is borrowed for the whole call, and librdkafka keeps its headers as long as the message.
    // Name and value point into them; a null value is an absent one, and a size goes with every other.
    unsafe {
        let found = c::rd_kafka_message_headers(message.ptr(), &raw mut headers);
        if found != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            return;
        }
        for at in 0..c::rd_kafka_header_cnt(headers) {
            let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
            let got = c::rd_kafka_header_get_all(headers, at, &raw mut name, &raw mut value, &raw mut size);
            if got != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
                return;
            }
            let value = (!value.is_null()).then(|| std::slice::from_raw_parts(value.cast::<u8>(), size));
            each(CStr::from_ptr(name).to_bytes(), value);
        }
    }
}

/// The offset and the metadata of one place in a list that the cluster has filled in.
pub(super) fn place(list: &TopicPartitionList, topic: &str, partition: i32) -> Option<(i64, String)> {
    let name = CString::new(topic).ok()?;
    // SAFETY: the list is borrowed for the whole call and so is the entry that is found in it; its metadata is null or
    // as long as it says.
    unsafe {
        let found = c::rd_kafka_topic_partition_list_find(list.ptr(), name.as_ptr(), partition);
        let entry = found.as_ref()?;
        let metadata = if entry.metadata.is_null() {
            &[]
        } else {
            std::slice::from_raw_parts(entry.metadata.cast::<u8>(), entry.metadata_size)
        };
        Some((entry.offset, String::from_utf8_lossy(metadata).into_owned()))
    }
}
