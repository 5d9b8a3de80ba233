//! dlo-testkit
