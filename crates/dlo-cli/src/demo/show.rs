//! What is seen of the story: a live line on a terminal, plain lines elsewhere, and the end as a table.

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use dlo_core::group::Group;
use dlo_core::letter::Status;
use dlo_core::reason::Reason;
use dlo_runtime::{Event, Watch};

use super::handler::TAX_SERVICE_AWAY;
use crate::exit::Outcome;
use crate::output::{Align, Out, Progress, Table, Tone, bar, count, letters, say};

/// What the consumer tells of itself, counted.
#[derive(Debug, Default)]
pub(super) struct Board {
    handled: AtomicU64,
    retried: AtomicU64,
    parked: AtomicU64,
    /// Of those: because a dependency was away. The story says none, and is believed only if it counts them.
    parked_for_outage: AtomicU64,
    /// What is worth a line of its own, until it is shown.
    news: Mutex<Vec<String>>,
}

impl Watch for Board {
    fn saw(&self, event: &Event<'_>) {
        match event {
            Event::Handled { .. } => drop(self.handled.fetch_add(1, Ordering::Relaxed)),
            Event::Retried { .. } => drop(self.retried.fetch_add(1, Ordering::Relaxed)),
            Event::DeadLettered(death) => {
                let before = self.parked.fetch_add(1, Ordering::Relaxed);
                if death.reason == Reason::CircuitOpen || death.error_class == TAX_SERVICE_AWAY {
                    self.parked_for_outage.fetch_add(1, Ordering::Relaxed);
                }
                if before == 0 {
                    self.tell(format!(
                        "the first letter: {} ({}); the rest flows on",
                        death.error_class, death.reason
                    ));
                }
            }
            Event::Paused { dependency, .. } => {
                self.tell(format!(
                    "{dependency} is down: messages wait at no charge, one probe at a time goes through"
                ));
            }
            Event::Resumed { dependency } => self.tell(format!("{dependency} is back: everything goes on")),
            Event::NotWritten { queue, problem } => {
                self.tell(format!("`{queue}` cannot be written: {problem}"))
            }
            Event::BrokerAway { problem } => self.tell((*problem).to_owned()),
            _ => {}
        }
    }
}

impl Board {
    pub(super) fn handled(&self) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }

    pub(super) fn retried(&self) -> u64 {
        self.retried.load(Ordering::Relaxed)
    }

    pub(super) fn parked(&self) -> u64 {
        self.parked.load(Ordering::Relaxed)
    }

    /// Orders that are over, one way or the other.
    pub(super) fn over(&self) -> u64 {
        self.handled() + self.parked()
    }

    fn tell(&self, news: String) {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).push(news);
    }

    fn take_news(&self) -> Vec<String> {
        std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Cells of the sparkline.
const SPARKS: usize = 16;

/// The live line.
#[derive(Debug)]
pub(super) struct Live {
    orders: u64,
    progress: Progress,
    terminal: bool,
    began: Instant,
    last: (Instant, u64),
    rates: VecDeque<u64>,
    said_at: Instant,
}

impl Live {
    pub(super) fn new(orders: u64) -> Self {
        let now = Instant::now();
        Self {
            orders,
            progress: Progress::new(),
            terminal: std::io::stderr().is_terminal(),
            began: now,
            last: (now, 0),
            rates: VecDeque::new(),
            said_at: now,
        }
    }

    /// Shows how things stand now. Called a few times a second.
    pub(super) fn tick(&mut self, board: &Board) {
        for news in board.take_news() {
            self.progress.end();
            say(format!("  {:>5.1}s  {news}", self.began.elapsed().as_secs_f64()));
        }
        let (now, over) = (Instant::now(), board.over());
        let since = now.duration_since(self.last.0);
        if since >= Duration::from_millis(250) {
            let rate = (over - self.last.1) as f64 / since.as_secs_f64();
            self.rates.push_back(rate as u64);
            if self.rates.len() > SPARKS {
                self.rates.pop_front();
            }
            self.last = (now, over);
        }
        let line = self.line(board, over);
        if self.terminal {
            self.progress.at(&line);
        } else if now.duration_since(self.said_at) >= Duration::from_secs(2) {
            self.said_at = now;
            say(line);
        }
    }

    pub(super) fn end(&mut self, board: &Board) {
        self.tick(board);
        self.progress.end();
        if !self.terminal {
            say(self.line(board, board.over()));
        }
    }

    fn line(&self, board: &Board, over: u64) -> String {
        let rate = self.rates.back().copied().unwrap_or(0);
        format!(
            "  {:<10}  {} of {} orders  {}  {}/s  {} parked",
            bar(over, self.orders),
            count(over),
            count(self.orders),
            sparkline(&self.rates),
            count(rate),
            count(board.parked())
        )
    }
}

/// The latest rates as small columns, scaled to the largest.
fn sparkline(rates: &VecDeque<u64>) -> String {
    const COLUMNS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let largest = rates.iter().copied().max().unwrap_or(0).max(1);
    rates.iter().map(|rate| COLUMNS[usize::try_from(rate * 7 / largest).unwrap_or(7).min(7)]).collect()
}

/// What happened, in three lines.
pub(super) fn happened(board: &Board, revenue_cents: u64, took: Duration) -> Outcome {
    let out = Out::new(false);
    out.line("")?;
    out.line(out.paint("What happened", Tone::Strong))?;
    out.line(format!(
        "  {} orders priced in {:.1} s, worth INR {}",
        count(board.handled()),
        took.as_secs_f64(),
        count(revenue_cents / 100)
    ))?;
    let for_outage = board.parked_for_outage.load(Ordering::Relaxed);
    out.line(format!(
        "  {} retries while the tax service was away, and {} parked because of it",
        count(board.retried()),
        if for_outage == 0 { "nothing".to_owned() } else { letters(for_outage) }
    ))?;
    out.line(format!(
        "  {} parked with their whole story; none lost, none in the way",
        letters(board.parked())
    ))
}

/// What the office holds now.
pub(super) fn groups(groups: &[Group]) -> Outcome {
    let out = Out::new(false);
    let columns = [
        ("OPEN", Align::Right),
        ("TOTAL", Align::Right),
        ("ERROR", Align::Left),
        ("OWNER", Align::Left),
        ("WHAT", Align::Left),
    ];
    let mut table = Table::new(&columns);
    for group in groups {
        let owner = group.owner.as_deref().unwrap_or("nobody");
        let class = group.error_class.as_deref().unwrap_or("-");
        let (open, total) = (group.counts.get(Status::Open), group.counts.total());
        table.row([&*count(open), &*count(total), class, owner, &*group.template]);
        if group.owner.is_none() {
            table.tone(3, Tone::Warn);
        }
    }
    out.line("")?;
    out.line(out.paint("What the office holds: letters with the same cause form one group", Tone::Strong))?;
    out.table(&table)
}

/// Where to look and what to try.
pub(super) fn next(address: SocketAddr, data: &Path, stays: bool) -> Outcome {
    let out = Out::new(false);
    let server = if address.port() == 8404 { String::new() } else { format!(" --server http://{address}") };
    out.line("")?;
    if stays {
        out.line(format!("{}  http://{address}", out.paint("The office is open:", Tone::Strong)))?;
        out.line("")?;
        out.line("Try, in another terminal:")?;
        for command in [
            "groups list",
            "letters list class:KeyError",
            "letters list payload.ship_to.pin:560034",
            "replay plan 'class:KeyError source:orders'",
            "audit verify",
        ] {
            out.line(format!("  dlo {command}{server}"))?;
        }
        out.line("")?;
        out.line(
            "The tax table is mended by this; sent on before it, the letters come back and the replay stops:",
        )?;
        out.line(format!("  curl -X POST http://{address}/demo/fix"))?;
        out.line("")?;
    }
    out.line(format!(
        "Letters and log are in {}; `dlo demo` goes on with them, `dlo demo --fresh` begins anew.",
        data.display()
    ))?;
    if stays {
        out.line("Ctrl-C closes the office.")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_is_scaled_to_its_largest_column() {
        assert_eq!(sparkline(&VecDeque::from([0, 50, 100])), "▁▄█");
        assert_eq!(sparkline(&VecDeque::new()), "");
        assert_eq!(sparkline(&VecDeque::from([0, 0])), "▁▁");
    }
}
