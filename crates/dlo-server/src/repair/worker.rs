//! The worker: a process of its own that runs expressions over letters, and may be killed at any time.
//!
//! jq has no limits of its own, so the process has them: memory, files and core dumps by the system, time by a second
//! thread that ends the process. A letter that the interpreter panics on is an answer; one that ends the process is told
//! apart by the office. Nothing is written but answers.

use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::program::Program;
use super::wire::{ANSWER, Answer, REQUEST, Request, encode_ready, read_frame};
use super::{MEMORY, OUT_OF_TIME, TIME};

/// Answers are held back up to here, unless the office asks for care.
const HELD: usize = 64 * 1024;
/// How often the second thread looks.
const LOOK: Duration = Duration::from_millis(20);

/// Serves requests from stdin until it ends.
pub fn run() -> io::Result<()> {
    limit()?;
    // What a panic says may hold payload, and nobody reads it.
    std::panic::set_hook(Box::new(|_| {}));
    let letter = Arc::new(AtomicU64::new(IDLE));
    let watched = Arc::clone(&letter);
    std::thread::Builder::new().stack_size(64 * 1024).spawn(move || watch(&watched))?;
    serve(&mut io::stdin().lock(), &mut io::stdout().lock(), &letter)
}

fn limit() -> io::Result<()> {
    let set = |resource, most: u64| {
        // A limit that the system set lower stays.
        let most = getrlimit(resource).maximum.map_or(most, |maximum| maximum.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
    };
    set(Resource::As, MEMORY)?;
    // No file can be opened or grow, and no core is dumped: it would hold payloads.
    set(Resource::Core, 0)?;
    set(Resource::Fsize, 0)?;
    set(Resource::Nofile, 3)?;
    Ok(())
}

/// No letter is under way.
const IDLE: u64 = 0;

/// Ends the process when one letter takes more than its time. Measured in processor time: a machine that is busy or was
/// asleep is no fault of the letter.
fn watch(letter: &AtomicU64) {
    let mut seen = (IDLE, Duration::ZERO);
    loop {
        std::thread::sleep(LOOK);
        let now = (letter.load(Ordering::Relaxed), spent());
        if now.0 == IDLE || now.0 != seen.0 {
            seen = now;
        } else if now.1.saturating_sub(seen.1) > TIME {
            std::process::exit(OUT_OF_TIME);
        }
    }
}

/// Processor time of this process.
fn spent() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn serve(from: &mut impl Read, to: &mut impl Write, letter: &AtomicU64) -> io::Result<()> {
    let mut program: Option<Program> = None;
    let mut serial = IDLE;
    while let Some(body) = read_frame(from, REQUEST)? {
        let request = Request::decode(&body)?;
        serial += 1;
        letter.store(serial, Ordering::Relaxed);
        if program.as_ref().is_none_or(|program| program.source() != request.expression) {
            match Program::compile(request.expression) {
                Ok(compiled) => program = Some(compiled),
                Err(bad) => {
                    letter.store(IDLE, Ordering::Relaxed);
                    to.write_all(&encode_ready(Err(&bad)))?;
                    to.flush()?;
                    continue;
                }
            }
        }
        let Some(program) = &program else { continue };
        let mut held = encode_ready(Ok(()));
        for asked in &request.letters {
            serial += 1;
            letter.store(serial, Ordering::Relaxed);
            let answer = catch_unwind(AssertUnwindSafe(|| program.run(asked)));
            let answer = answer.unwrap_or_else(|_| {
                Answer::Failed("jq failed on this letter: a defect of the interpreter".to_string())
            });
            held.extend_from_slice(&bounded(&answer));
            if request.careful || held.len() >= HELD {
                letter.store(IDLE, Ordering::Relaxed);
                to.write_all(&held)?;
                to.flush()?;
                held.clear();
            }
        }
        letter.store(IDLE, Ordering::Relaxed);
        to.write_all(&held)?;
        to.flush()?;
    }
    Ok(())
}

/// The office reads no longer frames.
fn bounded(answer: &Answer) -> Vec<u8> {
    let frame = answer.encode();
    if frame.len() <= ANSWER {
        return frame;
    }
    Answer::Failed("the headers of the result are too large".to_string()).encode()
}
