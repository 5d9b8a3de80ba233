//! the Pub/Sub emulator, started for tests.
