//! an SQS server, started for tests.
