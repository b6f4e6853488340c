//! Attributes as a request or a file writes them. All violations are reported at once.

use crate::domain::Violation;
use crate::domain::collection::attribute::{Attribute, Shorthand};
use crate::domain::collection::kind::Kind;
use crate::domain::collection::statuses::nameless;
use crate::domain::collection::value::Value;
use crate::domain::collection::value_of;

/// Changes to a collection: attributes by name, `null` to remove one.
///
/// A patch is checked when it is applied, because the kind of the collection decides what is allowed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Patch {
    attributes: Vec<(String, Value)>,
}

impl Patch {
    /// Creates a patch from attributes as they were written.
    #[must_use]
    pub fn new(written: impl IntoIterator<Item = (String, Value)>) -> Self {
        Self { attributes: written.into_iter().collect() }
    }

    /// The attributes as they were written.
    #[must_use]
    pub fn attributes(&self) -> &[(String, Value)] {
        &self.attributes
    }
}

/// Attributes from outside.
pub(super) struct AttributeInput {
    pub(super) kind: Kind,
    pub(super) set: Vec<(Attribute, Value)>,
    /// The shorthands whose status is not in `set`, where it takes precedence; one without a directory was `null`.
    pub(super) shorthands: Vec<(Shorthand, Option<Value>)>,
    /// The rules that the attributes break.
    violations: Vec<Violation>,
    /// The statuses without a name, which only requests have to have.
    nameless: Vec<Violation>,
}

impl AttributeInput {
    pub(super) fn of_new(kind: Kind, written: impl IntoIterator<Item = (String, Value)>) -> Self {
        Self::check(kind, written, |attribute| matches!(attribute, Attribute::Extension(_)))
    }

    pub(super) fn of_patch(kind: Kind, patch: &Patch) -> Self {
        Self::check(kind, patch.attributes.iter().cloned(), |_| true)
    }

    /// Checks each attribute. Where `may_be_null` returns true, `null` is accepted without a check.
    fn check(
        kind: Kind,
        written: impl IntoIterator<Item = (String, Value)>,
        may_be_null: impl Fn(&Attribute) -> bool,
    ) -> Self {
        let mut input = Self { kind, set: vec![], shorthands: vec![], violations: vec![], nameless: vec![] };
        let null_shorthands = may_be_null(&Attribute::UnpublishedStatuses);
        for (name, value) in written {
            if name == "type" {
                input.violations.extend(disagrees(kind, &value));
            } else if let (Kind::Document, Some(shorthand)) = (kind, Shorthand::parse(&name)) {
                input.take_shorthand(shorthand, value, null_shorthands);
            } else if let Some(attribute) = Attribute::parse(kind, &name) {
                let may_be_null = may_be_null(&attribute);
                input.take(attribute, value, may_be_null);
            } else {
                input.violations.push(Attribute::unknown(kind, &name));
            }
        }
        if let Some(explicit) = value_of(&input.set, &Attribute::UnpublishedStatuses) {
            input.shorthands.retain(|(shorthand, _)| explicit.get(shorthand.status()).is_none());
        }
        input
    }

    fn take_shorthand(&mut self, shorthand: Shorthand, value: Value, may_be_null: bool) {
        if value == Value::Null && may_be_null {
            return self.shorthands.push((shorthand, None));
        }
        match shorthand.check(value) {
            Ok(directory) => self.shorthands.push((shorthand, Some(directory))),
            Err(violation) => self.violations.push(violation),
        }
    }

    fn take(&mut self, attribute: Attribute, value: Value, may_be_null: bool) {
        if value == Value::Null && may_be_null {
            return self.set.push((attribute, value));
        }
        if attribute == Attribute::UnpublishedStatuses {
            self.nameless = nameless(&value);
        }
        match attribute.check(value) {
            Ok(value) => self.set.push((attribute, value)),
            Err(found) => self.violations.extend(found),
        }
    }

    /// Also requires a name for each status.
    pub(super) fn require_status_names(mut self) -> Self {
        self.violations.append(&mut self.nameless);
        self
    }

    pub(super) fn valid(self) -> Result<Self, Vec<Violation>> {
        if self.violations.is_empty() { Ok(self) } else { Err(self.violations) }
    }
}

fn disagrees(kind: Kind, value: &Value) -> Option<Violation> {
    (value.as_text() != Some(kind.as_str()))
        .then(|| Violation::at("type", format!("expected {:?}, found {value}", kind.as_str())))
}
