//! The office on a real listener, with the real embedded store: HTTP in, HTTP out.

#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod capture;
#[cfg(test)]
mod complete;
#[cfg(test)]
mod decide;
#[cfg(test)]
mod desk;
#[cfg(test)]
mod door;
#[cfg(test)]
mod export;
#[cfg(test)]
mod honest;
#[cfg(test)]
mod ingest;
#[cfg(test)]
mod office;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod reads;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod restore;
#[cfg(test)]
mod stop;
#[cfg(test)]
mod suspects;
#[cfg(test)]
mod triage;
#[cfg(test)]
mod trouble;
