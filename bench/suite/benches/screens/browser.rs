//! What a browser sees of the same screens: when there is something to read, and how many bytes came for it.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use crate::asked::Screen;
use crate::office::Office;
use crate::percentile;

/// Loads of each screen.
const LOADS: u32 = 7;

/// What `paint.mjs` says of one screen.
#[derive(Deserialize)]
struct Said {
    /// Milliseconds, one for each load.
    paints: Vec<f64>,
    /// Bytes as they were sent, and as gzip has them.
    sent: f64,
    compressed: f64,
}

/// One screen in the browser.
pub(crate) struct Seen {
    /// Milliseconds to the first paint, the median load.
    pub(crate) painted: f64,
    /// Kilobytes, compressed.
    pub(crate) weight: f64,
}

pub(crate) fn look(office: &Office, screens: &[Screen]) -> Vec<Seen> {
    println!("in Chromium: {LOADS} loads of each screen, nothing cached");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let servers = std::env::var_os("DLO_TEST_SERVERS")
        .map_or_else(|| root.join("../../target/servers"), std::path::PathBuf::from);
    let mut node = Command::new("node");
    node.arg(root.join("benches/screens/paint.mjs")).args([LOADS.to_string()]);
    node.args(screens.iter().map(|screen| format!("http://127.0.0.1:{}{}", office.port, (screen.path)(0))));
    let said = node.env("DLO_PAGE_MODULES", servers.join("browser")).output().expect("run node");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let lines: Vec<&[u8]> = said.stdout.split(|byte| *byte == b'\n').filter(|l| !l.is_empty()).collect();
    assert_eq!(lines.len(), screens.len(), "one line for each screen");
    let seen = |(screen, line): (&Screen, &[u8])| {
        let Said { mut paints, sent, compressed } =
            serde_json::from_slice(line).expect("a line of paint.mjs");
        let slowest = percentile(&mut paints, 1.0);
        println!("  {}: painted after {slowest:.0} ms at worst, {:.0} kB as sent", screen.what, sent / 1e3);
        Seen { painted: percentile(&mut paints, 0.5), weight: compressed / 1_000.0 }
    };
    screens.iter().zip(lines).map(seen).collect()
}
