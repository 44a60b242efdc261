//! After a crash, in peace: what was in flight is settled, and everything is compared.

use std::collections::BTreeSet;

use anabranch_judge::durability::{self, Outcome, Verdict};
use anabranch_node::Space;

use super::{InFlight, World, cut};
use crate::sim::check::{self, Difference};

impl World {
    /// Opens in peace and compares everything with the twin; settles what was in flight.
    pub(super) fn check(&mut self) -> Result<(), Difference> {
        let space = self.open()?.ok_or("the machine stopped in peace")?;
        self.counts.checks += 1;
        self.observe_expiry(&space)?;
        self.settle(&space)?;
        check::history(&space, &self.marks)?;
        self.judge(&space)?;
        drop(space);
        self.keep_asides()?;
        self.verify()
    }

    /// What was set aside for an operator stays there.
    fn keep_asides(&mut self) -> Result<(), Difference> {
        let files = self.disk.files().into_iter().map(|(name, _)| name);
        let found: BTreeSet<_> = files.filter(|name| name.ends_with(".aside")).collect();
        if let Some(lost) = self.asides.difference(&found).next() {
            return Err(format!("`{lost}`, which was set aside, is gone"));
        }
        self.asides = found;
        Ok(())
    }

    /// Finds out which of the operations in flight happened.
    fn settle(&mut self, space: &Space) -> Result<(), Difference> {
        let in_flight = std::mem::take(&mut self.in_flight);
        assert!(in_flight.len() <= 6, "few operations are in flight");
        let mut differences = Vec::new();
        for happened in 0..1_u32 << in_flight.len() {
            let mut model = self.model.clone();
            let chosen = |number: usize| happened >> number & 1 == 1;
            for (number, InFlight { operation, at, .. }) in in_flight.iter().enumerate() {
                if chosen(number) {
                    operation.apply(&mut model, *at, self.clock.as_ref());
                }
            }
            match check::space(space, &model) {
                Ok(()) => {
                    for (number, flying) in in_flight.into_iter().enumerate() {
                        self.settled(space, flying, chosen(number))?;
                    }
                    return Ok(());
                }
                Err(difference) => differences.push(difference),
            }
        }
        let flying: Vec<_> = in_flight.iter().map(|flying| &flying.operation).collect();
        Err(format!(
            "{} (in flight: {})",
            differences.join("; or "),
            cut(&format!("{flying:?}"), 400)
        ))
    }

    fn settled(
        &mut self,
        space: &Space,
        flying: InFlight,
        happened: bool,
    ) -> Result<(), Difference> {
        let InFlight { operation, at, write } = flying;
        self.say(format!("{at}: happened={happened}"));
        let expected = operation.expected(&self.model);
        if happened {
            self.counts.unknown_happened += 1;
            self.acknowledged(&operation, at, Outcome::Acknowledged(2 * self.moment + 1));
        } else {
            self.counts.unknown_lost += 1;
        }
        let Some(write) = write.filter(|_| self.random.one_in(2)) else { return Ok(()) };
        // The same write again: its first outcome, or its only execution.
        let again = operation.call(space, &self.model, Some(write));
        self.counts.retries += 1;
        self.say(format!("{at}: again -> {again:?}"));
        match again {
            Ok(answer) if answer == expected => {}
            other => {
                let operation = cut(&format!("{operation:?}"), 160);
                return Err(format!("a retry of {operation} answered {other:?}"));
            }
        }
        if !happened {
            self.moment += 1;
            let now = self.moment;
            self.acknowledged(&operation, now, Outcome::Acknowledged(2 * now + 1));
        }
        check::space(space, &self.model)
            .map_err(|difference| format!("after a retry: {difference}"))
    }

    fn judge(&self, space: &Space) -> Result<(), Difference> {
        for (stream, appends) in &self.judged {
            let read = check::read(space, "main", stream)?;
            if let Verdict::Violation(evidence) = durability::judge(appends, &read) {
                return Err(format!("judge: {evidence}"));
            }
        }
        Ok(())
    }

    /// A closed space verifies clean, and verifying changes nothing.
    fn verify(&mut self) -> Result<(), Difference> {
        let before = self.disk.operations();
        let report = anabranch_store::verify(&self.disk)
            .map_err(|error| format!("verify cannot run: {error}"))?;
        if self.disk.operations() != before {
            return Err("verify changed something".to_owned());
        }
        match report
            .findings
            .iter()
            .find(|finding| finding.severity != anabranch_store::Severity::Note)
        {
            Some(finding) => Err(format!("verify: {finding:?}")),
            None => Ok(()),
        }
    }
}
