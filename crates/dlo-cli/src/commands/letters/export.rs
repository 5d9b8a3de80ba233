//! `dlo letters export`: NDJSON, streamed as the server writes it.

use std::io::{Read, Write};

use super::super::query_text;
use crate::args::ExportArgs;
use crate::client::Client;
use crate::exit::{Failure, Outcome};
use crate::output::{Progress, WholeFile, letters, say};

pub(super) fn run(client: &Client, args: &ExportArgs) -> Outcome {
    let query = query_text(&args.query)?;
    match args.to.as_deref() {
        None => {
            let written = copy(client, &query, std::io::stdout().lock())?;
            say(format!("{} exported", letters(written)));
        }
        Some(path) => {
            let mut file = WholeFile::create(path)?;
            let written = copy(client, &query, &mut file)?;
            file.finish()?;
            say(format!("{} exported to {}", letters(written), path.display()));
        }
    }
    Ok(())
}

/// Copies the stream and counts its lines.
fn copy(client: &Client, query: &str, mut to: impl Write) -> Outcome<u64> {
    let answer = client.get_raw("/api/v1/letters/export", &[("q", query)])?;
    let mut body = answer.into_body().into_with_config().limit(u64::MAX).reader();
    let mut buffer = vec![0; 256 * 1024];
    let (mut written, mut progress) = (0_u64, Progress::new());
    loop {
        let got = body.read(&mut buffer).map_err(|cause| {
            Failure::failed(format!("the export broke off after {}: {cause}", letters(written)))
        })?;
        if got == 0 {
            break;
        }
        to.write_all(&buffer[..got])?;
        written += buffer[..got].iter().filter(|byte| **byte == b'\n').count() as u64;
        progress.at(&letters(written));
    }
    progress.end();
    to.flush()?;
    Ok(written)
}
