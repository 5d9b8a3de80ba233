//! RabbitMQ, started for tests.
