//! NATS, started for tests.
