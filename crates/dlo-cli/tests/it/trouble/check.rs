//! `dlo check` and `dlo serve` agree: what check passes starts.

use dlo_testkit::harness::rabbitmq::Rabbitmq;

use crate::office::{Said, dlo};

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_that_the_broker_cannot_serve_fails_the_check_as_it_fails_the_start() {
    let rabbit = Rabbitmq::shared().await;
    let dir = tempfile::tempdir().unwrap();
    let queue = format!("mirrored-{:x}", rand::random::<u64>());
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\ndata = \"data\"\n[brokers.shop]\nkind = \"rabbitmq\"\nurl = \"{}\"\n\
         [[sources]]\nname = \"orders\"\nowner = \"shop\"\nbroker = \"shop\"\nqueue = \"{queue}\"\ndlq = \"{queue}.dlq\"\n",
        rabbit.url()
    );
    let file = dir.path().join("dlo.toml");
    std::fs::write(&file, &text).unwrap();
    let run = |args: &[&str]| Said::new(&dlo().args(args).current_dir(dir.path()).output().unwrap());
    run(&["topology", "apply", "orders", "--yes"]).ok();
    let nobody = ["check", "--server", "http://127.0.0.1:1"];
    run(&nobody).ok();
    std::fs::write(&file, format!("{text}mode = \"mirror\"\n")).unwrap();
    let serve = run(&["serve"]);
    assert_eq!(serve.code, 1, "{serve:?}");
    let check = run(&nobody);
    assert_eq!(check.code, 1, "{check:?}");
    let why = "cannot be mirrored";
    assert!(serve.err.contains(why) && check.out.contains(why), "{check:?} beside {serve:?}");
}
