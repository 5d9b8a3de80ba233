//! ActiveMQ Artemis, started for tests.
