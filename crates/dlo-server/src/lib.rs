//! dlo-server
