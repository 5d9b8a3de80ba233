//! Redis, started for tests.
