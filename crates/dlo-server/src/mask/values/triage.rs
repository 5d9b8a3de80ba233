//! Groups, and what people write about them. Notes, links and runbooks are texts of people, and masked as any text.

use dlo_core::deploy::{Deploy, NewDeploy};
use dlo_core::group::{Group, Life, Similar, SplitOff};
use dlo_core::redact::Redactor;
use dlo_core::view::View;
use dlo_store::triage::{Changed, ClassTrend, Link, NewLink, Note, Runbook, Split};
use dlo_store::{CauseCount, GroupPage};

use super::Masked;

impl Masked for (Group, Similar) {
    fn mask(&mut self, rules: &Redactor) {
        self.0.mask(rules);
    }
}

/// A group is named by its error text.
impl Masked for Group {
    fn mask(&mut self, rules: &Redactor) {
        let Self {
            id: _,
            fingerprint_version: _,
            source: _,
            queue: _,
            consumer,
            event_type,
            error_class,
            template,
            overflow: _,
            life: Life { status: _, since: _, resolved_in, regressed_at: _, snooze: _ },
            owner: _,
            owner_by_hand: _,
            assignee: _,
            merged_into: _,
            split,
            members: _,
            first_seen: _,
            last_seen: _,
            counts: _,
        } = self;
        template.mask(rules);
        [consumer, event_type, error_class, resolved_in].into_iter().for_each(|one| one.mask(rules));
        if let Some(SplitOff { from: _, condition, title }) = split {
            condition.mask(rules);
            title.mask(rules);
        }
    }
}

impl Masked for GroupPage {
    fn mask(&mut self, rules: &Redactor) {
        self.groups.mask(rules);
    }
}

impl Masked for Changed {
    fn mask(&mut self, rules: &Redactor) {
        match self {
            Self::Changed(group) => group.mask(rules),
            Self::Illegal { .. } | Self::Missing => {}
        }
    }
}

impl Masked for Split {
    fn mask(&mut self, rules: &Redactor) {
        let Self { number: _, at: _, author: _, group, moving: _ } = self;
        group.mask(rules);
    }
}

impl Masked for CauseCount {
    fn mask(&mut self, rules: &Redactor) {
        let Self { event_type, error_class, counts: _ } = self;
        [event_type, error_class].into_iter().for_each(|one| one.mask(rules));
    }
}

impl Masked for ClassTrend {
    fn mask(&mut self, rules: &Redactor) {
        let Self { error_class, others: _, counts: _, total: _ } = self;
        error_class.mask(rules);
    }
}

impl Masked for Deploy {
    fn mask(&mut self, rules: &Redactor) {
        let Self { number: _, at: _, what, author: _ } = self;
        let NewDeploy { version, consumer, source: _, url } = what;
        version.mask(rules);
        [consumer, url].into_iter().for_each(|one| one.mask(rules));
    }
}

impl Masked for View {
    fn mask(&mut self, rules: &Redactor) {
        let Self { name, of: _, query, owner: _, author: _, saved_at: _ } = self;
        [name, query].into_iter().for_each(|one| one.mask(rules));
    }
}

impl Masked for Note {
    fn mask(&mut self, rules: &Redactor) {
        let Self { number: _, group: _, at: _, author: _, text } = self;
        text.mask(rules);
    }
}

impl Masked for Link {
    fn mask(&mut self, rules: &Redactor) {
        let Self { number: _, group: _, at: _, author: _, link: NewLink { title, url } } = self;
        [title, url].into_iter().for_each(|one| one.mask(rules));
    }
}

impl Masked for Runbook {
    fn mask(&mut self, rules: &Redactor) {
        let Self { group: _, version: _, at: _, author: _, text } = self;
        text.mask(rules);
    }
}
