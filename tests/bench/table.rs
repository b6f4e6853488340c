//! The table printed at the end of a run, in the format of `src/PERFORMANCE.md`.

use std::fmt;

/// The measurements, in the order in which they were made.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

struct Row {
    what: String,
    ours: String,
    theirs: String,
    /// The figure that is compared with the goal.
    figure: f64,
    goal: Goal,
    part: &'static str,
}

/// The goal of a figure.
pub(crate) enum Goal {
    /// A ratio of speeds.
    AtLeast(f64),
    /// A ratio of times or sizes.
    AtMost(f64),
    /// Milliseconds.
    MsAtMost(f64),
    /// Millions of bytes.
    MbAtMost(f64),
    /// A ratio of speeds, printed without a goal.
    None,
}

impl Table {
    /// Adds a comparison: `ours` and `theirs` are medians.
    pub(crate) fn compared(
        &mut self,
        part: &'static str,
        what: impl Into<String>,
        [ours, theirs]: [String; 2],
        ratio: f64,
        goal: Goal,
    ) {
        self.rows.push(Row { what: what.into(), ours, theirs, figure: ratio, goal, part });
    }

    /// Adds a figure that is compared with nothing.
    pub(crate) fn alone(&mut self, part: &'static str, what: impl Into<String>, figure: f64, goal: Goal) {
        let (ours, theirs) = (goal.shown(figure), String::new());
        self.rows.push(Row { what: what.into(), ours, theirs, figure, goal, part });
    }
}

impl Goal {
    fn is_met(&self, figure: f64) -> bool {
        match *self {
            Self::AtLeast(least) => figure >= least,
            Self::None => true,
            Self::AtMost(most) | Self::MsAtMost(most) | Self::MbAtMost(most) => figure <= most,
        }
    }

    /// Formats a figure in the unit of the goal.
    fn shown(&self, figure: f64) -> String {
        match *self {
            Self::AtLeast(_) | Self::AtMost(_) | Self::None => format!("{figure:.2}"),
            Self::MsAtMost(_) => format!("{figure:.2} ms"),
            Self::MbAtMost(most) if most < 1.0 => format!("{:.1} kB", figure * 1e3),
            Self::MbAtMost(_) => format!("{figure:.0} MB"),
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, "at least {least}"),
            Self::AtMost(most) => write!(f, "at most {most}"),
            Self::MsAtMost(most) => write!(f, "at most {most} ms"),
            Self::MbAtMost(most) => write!(f, "at most {most} MB"),
            Self::None => Ok(()),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| what | ours | the other | ratio | goal | made by |")?;
        writeln!(f, "|---|---|---|---|---|---|")?;
        for Row { what, ours, theirs, figure, goal, part } in &self.rows {
            let ratio = if theirs.is_empty() { String::new() } else { goal.shown(*figure) };
            let short = if goal.is_met(*figure) { "" } else { ", **short of it**" };
            writeln!(f, "| {what} | {ours} | {theirs} | {ratio} | {goal}{short} | `{part}` |")?;
        }
        Ok(())
    }
}

pub(crate) fn per_second(rate: f64) -> String {
    format!("{rate:.0}/s")
}

pub(crate) fn in_ms(ms: f64) -> String {
    format!("{ms:.2} ms")
}
