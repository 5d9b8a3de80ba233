//! dlo-brokers
