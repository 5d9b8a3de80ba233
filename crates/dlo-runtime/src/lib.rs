//! dlo-runtime
