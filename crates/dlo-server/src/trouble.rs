//! Collects what does not work in this office: one list for the banner, `dlo status`, the API and the metric.
//!
//! Nothing is asked here. Capture, consumers, replays and the store report what they see, and this joins the reports.
//! So the list costs the same at any number of letters, and it is there when the store is not.

use dlo_core::trouble::Trouble;

use crate::office::Office;

/// Troubles that are listed; a thousand of one cause say nothing more.
const MOST: usize = 1_000;

impl Office {
    /// What does not work now: the office itself first, then sources, consumers and replays.
    pub(crate) fn troubles(&self) -> Vec<Trouble> {
        let now = self.now();
        let office = self.health.unready();
        let office = office.map(|(unready, since)| Trouble::office(unready.kind, since, &unready.why));
        let mut all: Vec<Trouble> = office.into_iter().collect();
        all.extend(self.captures.troubles());
        all.extend(self.consumers.troubles(now));
        all.extend(self.replays.troubles());
        all.truncate(MOST);
        for trouble in &mut all {
            self.mask_trouble(trouble);
        }
        all
    }

    /// Reasons come from brokers and consumers, and so do the names of groups and queues.
    fn mask_trouble(&self, trouble: &mut Trouble) {
        self.mask.text(&mut trouble.why);
        if let Some(queue) = &mut trouble.queue {
            self.mask.text(queue);
            self.mask.text(&mut trouble.name);
            self.mask.text(&mut trouble.title);
        }
    }
}
