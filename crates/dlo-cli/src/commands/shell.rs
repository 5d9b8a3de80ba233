//! `dlo completions` and `dlo man`: made from the same types that read the command line.

use std::path::Path;

use clap::CommandFactory;

use crate::args::Args;
use crate::exit::{Failure, Outcome};
use crate::output::{Out, say};

pub(super) fn completions(shell: clap_complete::Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "dlo", &mut script);
    Out::new(false).bytes(&script)
}

pub(super) fn man(to: Option<&Path>) -> Outcome {
    let command = Args::command();
    let Some(dir) = to else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        return Out::new(false).bytes(&page);
    };
    std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(command, dir)).map_err(|cause| {
        Failure::failed(format!("the pages could not be written to {}: {cause}", dir.display()))
    })?;
    say(format!("one page per command written to {}", dir.display()));
    Ok(())
}
