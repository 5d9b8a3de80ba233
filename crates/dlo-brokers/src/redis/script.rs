//! What must happen in one step happens in a script on the server.
//!
//! A script is called by its hash; a server that does not know it (restarted, flushed, failed over) is given the text,
//! once. A script that was not known has done nothing, so calling it again is safe.

use std::sync::LazyLock;

use redis::{Cmd, Value};

use super::connection::{Failure, Link};

#[derive(Debug)]
pub(super) struct Script {
    text: &'static str,
    hash: LazyLock<String>,
}

macro_rules! scripts {
    ($($name:ident = $file:literal;)+) => {
        $( pub(super) static $name: Script = Script {
            text: include_str!($file),
            hash: LazyLock::new(|| redis::Script::new(include_str!($file)).get_hash().to_owned()),
        }; )+
    };
}

scripts! {
    TAKE = "scripts/take.lua";
    AGAIN = "scripts/again.lua";
    RENEW = "scripts/renew.lua";
    LEAVE = "scripts/leave.lua";
    BURY = "scripts/bury.lua";
    SPENT = "scripts/spent.lua";
    LATER = "scripts/later.lua";
    ONCE = "scripts/once.lua";
    LOOK = "scripts/look.lua";
}

impl Script {
    /// The call by hash, for a pipeline. Its arguments follow by [`Cmd::arg`].
    pub(super) fn by_hash(&self, keys: &[&str]) -> Cmd {
        called(redis::cmd("EVALSHA"), &self.hash, keys)
    }

    /// The call with the whole text, for a server that does not know the hash.
    pub(super) fn by_text(&self, keys: &[&str]) -> Cmd {
        called(redis::cmd("EVAL"), self.text, keys)
    }

    /// Calls it. `arguments` adds what follows the keys, to the first call and to a second one.
    pub(super) async fn call(
        &self,
        link: &Link,
        keys: &[&str],
        arguments: impl Fn(&mut Cmd),
    ) -> Result<Value, Failure> {
        let mut by_hash = self.by_hash(keys);
        arguments(&mut by_hash);
        match link.command(&by_hash).await {
            Err(failure) if failure.code() == Some("NOSCRIPT") => {
                let mut by_text = self.by_text(keys);
                arguments(&mut by_text);
                link.command(&by_text).await
            }
            answer => answer,
        }
    }
}

fn called(mut command: Cmd, script: &str, keys: &[&str]) -> Cmd {
    command.arg(script).arg(keys.len());
    for key in keys {
        command.arg(*key);
    }
    command
}

/// Whether an answer in a pipeline says that the server does not know a script.
pub(super) fn is_unknown(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.code() == "NOSCRIPT")
}
