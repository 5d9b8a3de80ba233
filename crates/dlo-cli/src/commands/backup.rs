//! `dlo backup` and `dlo restore`: the whole office as one file, while it runs.

use std::fs::File;
use std::io::{Read, Write};

use dlo_core::units::ByteSize;
use serde_json::Value;

use crate::args::{BackupArgs, RestoreArgs};
use crate::client::Client;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Out, Progress, WholeFile, letters, say};

pub(super) fn backup(args: &BackupArgs) -> Outcome {
    let client = Client::new(&args.client)?;
    let mut file = WholeFile::create(&args.to)?;
    let answer = client.post_raw("/api/v1/backup", &[], "application/json", &[], ureq::SendBody::none())?;
    let body = answer.into_body().into_with_config().limit(u64::MAX).reader();
    let bytes = copy(body, &mut file)
        .map_err(|cause| Failure::failed(format!("the backup broke off: {cause}; nothing was kept")))?;
    file.finish()?;
    say(format!("{} written to {}", ByteSize(bytes).rounded(), args.to.display()));
    Ok(())
}

fn copy(mut from: impl Read, to: &mut impl Write) -> std::io::Result<u64> {
    let mut buffer = vec![0; 256 * 1024];
    let (mut total, mut progress) = (0, Progress::new());
    loop {
        let got = from.read(&mut buffer)?;
        if got == 0 {
            progress.end();
            return Ok(total);
        }
        to.write_all(&buffer[..got])?;
        total += got as u64;
        progress.at(&ByteSize(total).rounded());
    }
}

pub(super) fn restore(args: &RestoreArgs) -> Outcome {
    let client = Client::new(&args.client)?;
    let mut file = File::open(&args.from).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::new(Exit::NotFound, format!("there is no file {}", args.from.display()))
        }
        _ => Failure::failed(format!("{} cannot be read: {cause}", args.from.display())),
    })?;
    let size = file.metadata()?.len();
    if !args.yes {
        return dry_run(&client, args, size);
    }
    let reason = args.reason.as_deref().unwrap_or("");
    let query: Vec<(&str, &str)> = if reason.is_empty() { vec![] } else { vec![("reason", reason)] };
    let body = ureq::SendBody::from_reader(&mut file);
    let answer = client.post_raw("/api/v1/restore", &query, "application/octet-stream", &[], body)?;
    let answer = client.json(answer)?;
    if args.client.json {
        return Out::new(true).value(&answer);
    }
    say(format!("{} was restored from {}", client.address(), args.from.display()));
    Ok(())
}

fn dry_run(client: &Client, args: &RestoreArgs, size: u64) -> Outcome {
    let stats = client.get("/api/v1/stats", &[])?;
    let here = letters(stats.pointer("/letters/total").and_then(Value::as_u64).unwrap_or(0));
    let out = Out::new(args.client.json);
    out.line(format!(
        "{} ({}) would replace the {here} of {}; nothing was changed: --yes does it",
        args.from.display(),
        ByteSize(size).rounded(),
        client.address(),
    ))
}
