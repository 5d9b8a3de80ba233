//! Replays and their items: what was asked, why it stopped, and what became of each letter.

use dlo_core::redact::Redactor;
use dlo_core::replay::{Item, PlannedKind, Repairing, Replay, Settings};
use dlo_store::replays::{ItemPage, ReplayPage};

use super::Masked;

impl Masked for Replay {
    fn mask(&mut self, rules: &Redactor) {
        let Self {
            id: _,
            parent: _,
            ordinal: _,
            state: _,
            query,
            source: _,
            event_type,
            error_class,
            cause: _,
            settings,
            author: _,
            reason,
            created_at: _,
            expires_at: _,
            started_at: _,
            ended_at: _,
            stop_reason,
            stop_letters: _,
            approvals: _,
            approvals_needed: _,
            by_class,
            excluded: _,
            doubts,
            counts: _,
        } = self;
        [query, event_type, error_class, stop_reason].into_iter().for_each(|one| one.mask(rules));
        settings.mask(rules);
        reason.mask(rules);
        by_class.mask(rules);
        doubts.mask(rules);
    }
}

impl Masked for Settings {
    fn mask(&mut self, rules: &Redactor) {
        if let Some(Repairing { expression }) = &mut self.repair {
            expression.mask(rules);
        }
    }
}

impl Masked for PlannedKind {
    fn mask(&mut self, rules: &Redactor) {
        let Self { source: _, event_type, error_class, owner: _, consumer, count: _, oldest: _, newest: _ } =
            self;
        [event_type, error_class, consumer].into_iter().for_each(|one| one.mask(rules));
    }
}

impl Masked for ReplayPage {
    fn mask(&mut self, rules: &Redactor) {
        self.replays.mask(rules);
    }
}

impl Masked for Item {
    fn mask(&mut self, rules: &Redactor) {
        let Self { number: _, letter: _, state: _, at: _, sent_at: _, partition: _, offset: _, note } = self;
        note.mask(rules);
    }
}

impl Masked for ItemPage {
    fn mask(&mut self, rules: &Redactor) {
        self.items.mask(rules);
    }
}

#[cfg(test)]
mod tests {
    use dlo_core::id::LetterId;
    use dlo_core::redact::RedactRules;
    use dlo_core::replay::ItemState;

    use super::*;

    #[test]
    fn the_note_of_an_item_and_the_expression_of_a_repair_are_masked() {
        let rules: RedactRules = serde_json::from_str(r#"{"patterns":["SECRET-[a-z]+"]}"#).unwrap();
        let rules = Redactor::compile(&rules).unwrap();
        let mut item = Item {
            number: 0,
            letter: LetterId(uuid::Uuid::nil()),
            state: ItemState::Returned,
            at: None,
            sent_at: None,
            partition: None,
            offset: None,
            note: Some("it came back with SECRET-class".into()),
        };
        item.mask(&rules);
        assert_eq!(item.note.as_deref(), Some("it came back with ***"));
        let repair = Some(Repairing { expression: ".x = \"SECRET-x\"".into() });
        let mut settings = Settings { repair, ..Settings::default() };
        settings.mask(&rules);
        assert_eq!(settings.repair.unwrap().expression, ".x = \"***\"");
    }
}
