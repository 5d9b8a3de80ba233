//! What an intruder tries: bodies without end, clients that fall silent, ports that anybody may ask.

mod bodies;
mod edges;
mod masked;
mod paths;
mod streams;
