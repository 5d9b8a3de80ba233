//! One build for everything: every target of the workspace, compiled by clippy's driver, which is rustc with more lints.
//!
//! So the tests that run are what clippy has read, and nothing is compiled twice. Warnings are collected and judged by the
//! tier `clippy`: a warning does not keep the tests from running.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::process::has_program;
use crate::tiers::Tier;

/// A program that the build made.
#[derive(Debug, Clone)]
pub(crate) struct Binary {
    pub(crate) package: String,
    pub(crate) target: String,
    pub(crate) is_test: bool,
    pub(crate) path: PathBuf,
    /// The package's folder: tests run there, as cargo runs them.
    pub(crate) folder: PathBuf,
}

/// What the build came to.
#[derive(Debug, Default)]
pub(crate) struct Built {
    pub(crate) succeeded: bool,
    pub(crate) warnings: Vec<String>,
    pub(crate) errors: Vec<String>,
}

/// Makes `command` use the artifacts of this build: the same compiler, and the system's OpenSSL where it is there.
pub(crate) fn as_the_build_does(command: &mut Command) {
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    if Path::new("/usr/include/openssl/ssl.h").exists() && has_program("pkg-config") {
        command.env("OPENSSL_NO_VENDOR", "1");
    }
}

/// The cargo arguments that name what `tiers` need. The tiers of one crate compile no other.
fn scope(tiers: &[&Tier]) -> Vec<&'static str> {
    let packages: Vec<&str> = tiers.iter().flat_map(|tier| tier.packages()).collect();
    match packages.first() {
        Some(&"dlo-core") if packages.iter().all(|package| *package == "dlo-core") => vec!["-p", "dlo-core"],
        Some(_) if packages.iter().all(|package| ["dlo-testkit", "dlo-test"].contains(package)) => {
            vec!["-p", "dlo-testkit", "-p", "dlo-test"]
        }
        _ => vec!["--workspace", "--all-targets"],
    }
}

/// Builds what `tiers` need, and hands over every program as soon as it is there.
pub(crate) fn build(tiers: &[&Tier], mut on_binary: impl FnMut(Binary)) -> Result<Built, String> {
    let mut command = Command::new("cargo");
    command.args(["test", "--locked", "--no-run", "--message-format=json"]).args(scope(tiers));
    as_the_build_does(&mut command);
    let mut cargo = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|why| format!("cannot start cargo: {why}"))?;
    let mut built = Built::default();
    for line in BufReader::new(cargo.stdout.take().ok_or("cargo has no output")?).lines() {
        let line = line.map_err(|why| format!("cannot read what cargo says: {why}"))?;
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        match message["reason"].as_str() {
            Some("compiler-message") => on_diagnostic(&message["message"], &mut built),
            Some("compiler-artifact") => binary(&message).into_iter().for_each(&mut on_binary),
            _ => {}
        }
    }
    built.succeeded = cargo.wait().map_err(|why| format!("cannot wait for cargo: {why}"))?.success();
    Ok(built)
}

fn on_diagnostic(message: &Value, built: &mut Built) {
    let text = message["rendered"].as_str().unwrap_or_default().to_owned();
    // "3 warnings emitted" has no place in the source. A file that is part of two targets is read twice.
    let has_place = message["spans"].as_array().is_some_and(|spans| !spans.is_empty());
    let list = match message["level"].as_str() {
        Some("warning") if has_place => &mut built.warnings,
        Some("error") => &mut built.errors,
        _ => return,
    };
    if !list.contains(&text) {
        list.push(text);
    }
}

fn binary(message: &Value) -> Option<Binary> {
    let path = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    // "path+file:///…/crates/dlo-core#0.1.0", or "…/bench/gate#dlo-gate@0.1.0" where folder and name differ.
    let id = message["package_id"].as_str()?.rsplit_once('#')?;
    let package = id.1.split_once('@').map_or_else(|| id.0.rsplit('/').next(), |(name, _)| Some(name))?;
    Some(Binary {
        package: package.to_owned(),
        target: message["target"]["name"].as_str()?.to_owned(),
        is_test: message["profile"]["test"] == true && message["target"]["kind"][0] != "bench",
        path,
        folder,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_artifact_names_its_package_its_target_and_its_program() {
        let message = |id: &str| {
            serde_json::json!({
                "package_id": id, "manifest_path": "/x/bench/gate/Cargo.toml",
                "target": { "name": "it", "kind": ["test"] }, "profile": { "test": true },
                "executable": "/x/target/debug/deps/it-1",
            })
        };
        let gate = binary(&message("path+file:///x/bench/gate#dlo-gate@0.1.0")).unwrap();
        assert_eq!((gate.package.as_str(), gate.target.as_str(), gate.is_test), ("dlo-gate", "it", true));
        assert_eq!(gate.folder, Path::new("/x/bench/gate"));
        assert_eq!(binary(&message("path+file:///x/crates/dlo-core#0.1.0")).unwrap().package, "dlo-core");
    }

    #[test]
    fn the_tiers_of_one_crate_compile_no_other() {
        let tiers = |names: &[&str]| -> Vec<&'static Tier> {
            crate::tiers::ALL.iter().filter(|tier| names.contains(&tier.name)).collect()
        };
        assert_eq!(scope(&tiers(&["core"])), ["-p", "dlo-core"]);
        assert_eq!(scope(&tiers(&["format", "tidy"])), ["-p", "dlo-testkit", "-p", "dlo-test"]);
        assert!(scope(&tiers(&["core", "kafka"])).contains(&"--workspace"));
    }

    #[test]
    fn a_warning_is_kept_once_and_its_summary_not_at_all() {
        let mut built = Built::default();
        let warning = serde_json::json!({ "level": "warning", "spans": [{}], "rendered": "warning: unused" });
        for message in [&warning, &warning, &serde_json::json!({ "level": "warning", "spans": [] })] {
            on_diagnostic(message, &mut built);
        }
        assert_eq!(built.warnings, ["warning: unused"]);
    }
}
