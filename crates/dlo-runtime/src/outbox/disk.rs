//! The disk of a chute: letters that wait there while their queue cannot be written, in order, within the spool's bound.
//!
//! Their originals stay unsettled. A crash between "confirmed" and "off the disk" writes a letter twice; its death's id
//! says that it is one.

use std::path::Path;
use std::time::Duration;

use dlo_core::broker::{Outgoing, PublishError, Settlement};
use dlo_core::envelope::{decode, mark_redelivered, remove_death, size};
use dlo_core::id::DeathId;
use dlo_core::message::Message;
use dlo_core::time::Timestamp;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::chute::{BATCH, BATCH_BYTES, Chute, Sent, Tried, may_be_there, ring};
use super::graves::Name;
use super::{Awaited, Content, Parcel};
use crate::events::Event;
use crate::large::{Kept, LargeLetter, pointer};
use crate::spool::{Spool, SpoolError, Spooled};

impl Chute {
    /// Takes up what an earlier life left.
    pub(super) async fn open_spool(&mut self) {
        let Some(directory) = &self.ways.spool else { return };
        let directory = directory.join(spool_name(&self.queue));
        let most = self.ways.spool_bytes;
        let opened = tokio::task::spawn_blocking(move || Spool::open(&directory, most)).await;
        match opened {
            Ok(Ok(spool)) => {
                for death in spool.deaths() {
                    self.ways.graves.dig(Name::Known(death), None, None);
                    self.on_disk.push_back((death, Name::Known(death)));
                    self.ahead.push_back(Sent::Maybe);
                }
                self.spool = Some(spool);
            }
            Ok(Err(problem)) => {
                tracing::error!(queue = self.queue, %problem, "consumer.no_spool");
            }
            Err(defect) => tracing::error!(queue = self.queue, %defect, "consumer.defect"),
        }
    }

    /// Waits for the next try; takes in what is handed over as long as there is room, on disk once it is time. `false`:
    /// nobody hands over any more; what is not on disk goes back to the broker.
    pub(super) async fn sit_out(
        &mut self,
        pause: Duration,
        to_disk: bool,
        parcels: &mut mpsc::Receiver<Parcel>,
    ) -> bool {
        let until = Instant::now() + pause;
        loop {
            let room = if to_disk { self.spill().await } else { self.waiting.len() < BATCH };
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(until) => {
                    if let Some(spool) = self.spool.as_ref().filter(|_| !self.on_disk.is_empty()) {
                        self.ways.watch.saw(&Event::Spooled { letters: spool.len(), bytes: spool.bytes() });
                    }
                    return true;
                }
                kept = self.keeping.next(), if !self.keeping.is_empty() => self.on_kept(kept),
                parcel = parcels.recv(), if room => match parcel {
                    Some(parcel) => self.waiting.push_back(parcel),
                    None => return false,
                },
            }
            while self.waiting.len() < BATCH
                && let Ok(parcel) = parcels.try_recv()
            {
                self.waiting.push_back(parcel);
            }
        }
    }

    /// Puts every letter that waits on disk, as far as there is room. `true`: there is room for more.
    async fn spill(&mut self) -> bool {
        let Some(mut spool) = self.spool.take() else { return self.waiting.len() < BATCH };
        let (letters, written) = self.letters();
        let asked = written.len();
        let pushed = tokio::task::spawn_blocking(move || {
            let pushed = what_fits(&mut spool, &written);
            (spool, pushed)
        });
        let Ok((spool, (count, problem))) = pushed.await else {
            self.waiting.extend(letters.into_iter().map(|(_, _, parcel)| parcel));
            return false;
        };
        let first = self.on_disk.is_empty() && count > 0;
        let mut letters = letters.into_iter();
        for (death, known, parcel) in letters.by_ref().take(count) {
            self.bury(death, known, parcel);
        }
        self.waiting.extend(letters.map(|(_, _, parcel)| parcel));
        self.ways.room.spooled(count);
        if first {
            self.ways.watch.saw(&Event::Spooled { letters: spool.len(), bytes: spool.bytes() });
        }
        if let Some(problem) = problem.filter(|problem| !matches!(problem, SpoolError::Full { .. })) {
            tracing::error!(queue = self.queue, %problem, "consumer.no_spool");
        }
        self.spool = Some(spool);
        count == asked && self.waiting.len() < BATCH
    }

    /// Every letter that waits, as it goes to disk. Retries stay where they are.
    fn letters(&mut self) -> (Vec<(DeathId, bool, Parcel)>, Vec<Spooled>) {
        let (letters, kept): (Vec<_>, Vec<_>) =
            self.waiting.drain(..).partition(|parcel| matches!(parcel.content, Content::Letter { .. }));
        self.waiting.extend(kept);
        let (mut rights, mut written) = (Vec::new(), Vec::new());
        for parcel in letters {
            let Content::Letter { envelope, known, .. } = &parcel.content else { continue };
            match (envelope.death_id, parcel.write(&self.ways.words, self.limit)) {
                (Some(death), Ok(message)) => {
                    written.push(Spooled { death, to: parcel.to.clone(), message });
                    rights.push((death, *known, parcel));
                }
                _ => self.does_not_fit(parcel, "its body is larger than the queue takes"),
            }
        }
        (rights, written)
    }

    fn bury(&mut self, death: DeathId, known: bool, mut parcel: Parcel) {
        let confirmed = match parcel.awaited.take() {
            Some(Awaited::Confirmed(rung)) => Some(rung),
            kept => {
                ring(kept);
                None
            }
        };
        let name = if known {
            Name::Known(death)
        } else {
            self.names += 1;
            Name::Nameless(self.names)
        };
        self.ways.graves.dig(name, Some(parcel.right), confirmed);
        self.on_disk.push_back((death, name));
    }

    /// What cannot be read any more is undecided again: its original comes again, with the next connection at the latest.
    fn unbury(&mut self, lost: &[DeathId]) {
        for death in lost {
            if let Some(at) = self.on_disk.iter().position(|(known, _)| known == death)
                && let Some((_, name)) = self.on_disk.remove(at)
            {
                self.ways.graves.forget(name);
                self.ways.room.off_disk(1);
            }
        }
    }

    /// Writes the oldest that wait on disk.
    pub(super) async fn send_disk(&mut self) -> Tried {
        let Some(mut spool) = self.spool.take() else {
            self.on_disk.clear();
            return Tried::Well;
        };
        let read = tokio::task::spawn_blocking(move || {
            let read = spool.front(BATCH, BATCH_BYTES);
            (spool, read)
        });
        let Ok((mut spool, read)) = read.await else { return Tried::Not("the spool is gone".to_owned()) };
        let lost = spool.take_lost();
        if !lost.is_empty() {
            // Places have moved: what was confirmed ahead is written again, and recognised by its id.
            self.ahead.iter_mut().for_each(|sent| *sent = Sent::Maybe);
            self.unbury(&lost);
        }
        self.spool = Some(spool);
        let letters = match read {
            Ok(letters) => letters,
            Err(problem) => return Tried::Not(problem.to_string()),
        };
        let tried = self.publish_open(&letters).await;
        // They leave the disk in order; what is confirmed behind one that is not waits for it, and is not written again.
        let confirmed =
            self.ahead.iter().take(letters.len()).take_while(|sent| **sent == Sent::Confirmed).count();
        self.ahead.drain(..confirmed);
        self.off_disk(&letters[..confirmed]).await;
        tried
    }

    /// Writes those at the front of the disk that are not confirmed yet, and remembers which of them now are.
    async fn publish_open(&mut self, letters: &[Spooled]) -> Tried {
        self.ahead.resize(self.ahead.len().max(letters.len()), Sent::No);
        let open: Vec<usize> = (0..letters.len()).filter(|at| self.ahead[*at] != Sent::Confirmed).collect();
        let (too_large, mut problem) = self.publish_some(letters, &open).await;
        for at in too_large {
            // The server may have meant all that was sent together.
            let (refused, alone) = match open.len() {
                1 => (vec![at], None),
                _ => self.publish_some(letters, &[at]).await,
            };
            problem = problem.or(alone);
            if !refused.is_empty()
                && let Err(why) = self.keep_large(&letters[at], at).await
            {
                problem = problem.or(Some(why));
            }
        }
        problem.map_or(Tried::Well, Tried::Not)
    }

    /// Returns which were refused as too large, and what else the next try will not solve.
    async fn publish_some(&mut self, letters: &[Spooled], some: &[usize]) -> (Vec<usize>, Option<String>) {
        let outgoing = some.iter().map(|at| {
            let message = self.copy(&letters[*at], self.ahead[*at]);
            self.to_queue(&letters[*at], message)
        });
        let results = self.ways.publisher.publish(outgoing.collect()).await;
        let mut problem =
            (results.len() < some.len()).then(|| "the publisher did not answer for each".to_owned());
        let mut too_large = Vec::new();
        for (at, result) in some.iter().copied().zip(results) {
            let Err(error) = result else {
                self.ahead[at] = Sent::Confirmed;
                continue;
            };
            if may_be_there(&error) {
                self.ahead[at] = Sent::Maybe;
            }
            match error {
                PublishError::TooLarge { .. }
                    if some.len() > 1 || !self.drops_mark(&letters[at], self.ahead[at]) =>
                {
                    too_large.push(at);
                }
                PublishError::TooLarge { .. } => {}
                _ if self.adapts(&error) => {}
                _ => problem = problem.or(Some(error.to_string())),
            }
        }
        (too_large, problem)
    }

    fn to_queue(&self, letter: &Spooled, message: Message) -> Outgoing {
        let mut to = letter.to.clone();
        to.partition = to.partition.filter(|_| !self.any_partition);
        Outgoing { to, message, delay: None }
    }

    /// A letter that its queue does not take goes to where large letters are kept, as it would have gone without the disk. Its
    /// name comes from its death, so a second try after a crash keeps no second copy.
    async fn keep_large(&mut self, letter: &Spooled, at: usize) -> Result<(), String> {
        let (Some(large), Some(envelope)) = (self.ways.large.clone(), decode(&letter.message.headers)) else {
            return Err("a letter is larger than its queue takes".to_owned());
        };
        let mut message = letter.message.clone();
        remove_death(&mut message.headers);
        let died = envelope.dead_at.map_or(0, Timestamp::as_micros);
        let name = format!("{died:016x}-{}", letter.death);
        let kept = large.keep(LargeLetter { message: &message, envelope: &envelope, name: &name }).await?;
        if let Kept::OnDisk(file) = kept {
            let limit = self.ways.publisher.capabilities().max_message;
            let pointer =
                pointer(&message, &envelope, &file, limit).map_err(|too_large| too_large.to_string())?;
            let results = self.ways.publisher.publish(vec![self.to_queue(letter, pointer)]).await;
            match results.into_iter().next() {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.to_string()),
                None => return Err("the publisher gave no result".to_owned()),
            }
        }
        self.ahead[at] = Sent::Confirmed;
        Ok(())
    }

    /// Whether the next try of a letter that is too large will be without the mark of a copy. Nothing else of a letter on
    /// disk can be cut.
    fn drops_mark(&mut self, letter: &Spooled, sent: Sent) -> bool {
        let copy = size(&self.copy(letter, sent));
        let is_marked = copy > size(&letter.message);
        if is_marked {
            self.limit = copy - 1;
        }
        is_marked
    }

    /// A letter as it leaves the disk: one that may be there already says so, if there is room for that.
    fn copy(&self, letter: &Spooled, sent: Sent) -> Message {
        let mut copy = letter.message.clone();
        if sent == Sent::Maybe {
            mark_redelivered(&mut copy.headers);
        }
        if size(&copy) > self.limit { letter.message.clone() } else { copy }
    }

    async fn off_disk(&mut self, letters: &[Spooled]) {
        let Some(mut spool) = self.spool.take() else { return };
        let count = letters.len();
        let popped = tokio::task::spawn_blocking(move || {
            let popped = spool.pop(count);
            (spool, popped)
        });
        if let Ok((spool, popped)) = popped.await {
            // Then they are written again after a restart, and recognised.
            if let Err(problem) = popped {
                tracing::error!(queue = self.queue, %problem, "consumer.no_spool");
            }
            self.spool = Some(spool);
        }
        for letter in letters {
            if let Some(envelope) = decode(&letter.message.headers) {
                self.tell_death(&envelope, &letter.message);
            }
            let right = self.on_disk.pop_front().and_then(|(_, name)| self.ways.graves.confirmed(name));
            if let Some(right) = right {
                self.ways.room.off_disk(1);
                self.ways.settling.settle(right.settle(Settlement::Done));
            }
        }
        if self.on_disk.is_empty() {
            self.ways.watch.saw(&Event::SpoolEmpty);
        }
    }
}

/// Pushes as many of the first as there is room for, and says how many that were.
fn what_fits(spool: &mut Spool, letters: &[Spooled]) -> (usize, Option<SpoolError>) {
    let (mut done, mut chunk) = (0, letters.len());
    while done < letters.len() {
        let end = (done + chunk).min(letters.len());
        match spool.push(&letters[done..end]) {
            Ok(()) => done = end,
            Err(SpoolError::Full { .. }) if chunk > 1 => chunk /= 2,
            Err(problem) => return (done, Some(problem)),
        }
    }
    (done, None)
}

/// The queues for which letters wait below `directory`, as far as its names tell.
pub(super) fn left_behind(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| queue_of(&name)).collect()
}

fn queue_of(name: &str) -> Option<String> {
    let mut queue = Vec::new();
    let mut bytes = name.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            queue.push(byte);
            continue;
        }
        let digits = [bytes.next()?, bytes.next()?];
        queue.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(queue).ok()
}

/// The queue's name as that of a directory: what is unusual is written as its number.
fn spool_name(queue: &str) -> String {
    let mut name = String::new();
    for byte in queue.bytes().take(80) {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02x}"));
        }
    }
    name
}
