//! `dlo letters payload`: the bytes, exactly. To a file or a pipe as they are; on a terminal, what is no text as hex.

use std::io::{IsTerminal, Read, Write};

use crate::args::PayloadArgs;
use crate::client::Client;
use crate::exit::{Failure, Outcome};
use crate::output::{Out, WholeFile, clean_lines, say};

/// Bytes that are shown as hex on a terminal.
const SHOWN: usize = 4 * 1024;

pub(super) fn run(client: &Client, out: Out, args: &PayloadArgs) -> Outcome {
    // The file comes first: a payload that was read and audited should not be lost for want of a place.
    let file = args.to.as_deref().map(WholeFile::create).transpose()?;
    let answer = client.get_raw(&format!("/api/v1/letters/{}/payload", args.id), &[])?;
    let mut bytes = Vec::new();
    let mut body = answer.into_body().into_reader();
    body.read_to_end(&mut bytes)
        .map_err(|cause| Failure::failed(format!("the payload broke off: {cause}")))?;
    match (file, args.to.as_deref()) {
        (Some(mut file), Some(path)) => {
            file.write_all(&bytes)?;
            file.finish()?;
            say(format!("{} bytes written to {}", bytes.len(), path.display()));
            Ok(())
        }
        _ if std::io::stdout().is_terminal() => on_terminal(out, &bytes),
        _ => out.bytes(&bytes),
    }
}

fn on_terminal(out: Out, bytes: &[u8]) -> Outcome {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return out.line(clean_lines(text));
    }
    for line in hex_lines(&bytes[..bytes.len().min(SHOWN)]) {
        out.line(line)?;
    }
    if bytes.len() > SHOWN {
        say(format!("… {} more bytes; --to FILE writes all", bytes.len() - SHOWN));
    }
    Ok(())
}

/// Sixteen bytes a line: place, hex, text.
fn hex_lines(bytes: &[u8]) -> Vec<String> {
    let lines = bytes.chunks(16).enumerate();
    lines
        .map(|(index, chunk)| {
            let hex: Vec<String> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
            let text: String = chunk
                .iter()
                .map(|byte| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '.' })
                .collect();
            format!("{:08x}  {:<47}  {text}", index * 16, hex.join(" "))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::hex_lines;

    #[test]
    fn bytes_are_shown_as_hex_and_text() {
        let lines = hex_lines(b"ab\x00\xff0123456789abcdef");
        assert_eq!(lines[0], "00000000  61 62 00 ff 30 31 32 33 34 35 36 37 38 39 61 62  ab..0123456789ab");
        assert_eq!(lines[1], "00000010  63 64 65 66                                      cdef");
    }
}
