//! A secret in every field of a letter, and everything that could show it: each route of the route table, the command line,
//! the log; the search box digit by digit; repairs that copy, encode or decide by a masked value.

mod plant;
mod repairs;
mod routes;
mod search;
