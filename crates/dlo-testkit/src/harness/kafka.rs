//! Apache Kafka, started for tests.
