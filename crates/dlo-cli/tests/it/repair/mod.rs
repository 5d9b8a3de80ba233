//! Repair from outside: the worker as a process with its limits, and `dlo repair` on a running office.

mod command;
mod worker;
