//! The house rules that a compiler cannot check, read from the files themselves.
//!
//! Each rule is one test and says, when it fails, which file, what is wrong and what to do. What is checked is what is
//! there: a new crate, room or page comes under the rules by existing.

#[cfg(test)]
mod arrows;
#[cfg(test)]
mod builds;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod files;
#[cfg(test)]
mod house;
#[cfg(test)]
mod licences;
#[cfg(test)]
mod map;
#[cfg(test)]
mod tree;
