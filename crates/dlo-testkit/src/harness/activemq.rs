//! ActiveMQ Classic, started for tests.
