//! The file of accepted figures: for each its value, its tolerance, and the reason for its value.

use toml_edit::{DocumentMut, Item, Table, value};
use toolrack_bench::AnyError;

/// The tolerance of a figure that is new in the file, in percent.
const DEFAULT_PERCENT: f64 = 5.0;

/// The file, its comments included.
#[derive(Debug)]
pub(crate) struct Accepted(DocumentMut);

/// One accepted figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    /// The tolerance, in percent of the value.
    pub(crate) percent: f64,
}

/// The verdict on a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    AsAccepted,
    /// More than accepted.
    Worse(Figure),
    /// Less than accepted. That is good, but has to be accepted: otherwise a later loss would go unnoticed.
    Better(Figure),
    /// The file has no value for the figure.
    Unknown,
}

impl Accepted {
    /// Reads the file.
    pub(crate) fn read(text: &str) -> Result<Self, AnyError> {
        let accepted = Self(text.parse()?);
        for name in accepted.names() {
            let why = accepted.0[name].get("why").and_then(Item::as_str).unwrap_or_default();
            if accepted.figure(name).is_none() || why.trim().is_empty() {
                return Err(format!("{name} needs `value` and `percent`, which are numbers, and a `why`").into());
            }
        }
        Ok(accepted)
    }

    /// The text of the file.
    pub(crate) fn text(&self) -> String {
        self.0.to_string()
    }

    /// The figures in it.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name)
    }

    /// The figure of this name.
    pub(crate) fn figure(&self, name: &str) -> Option<Figure> {
        let number = |field: &str| {
            let item = self.0.get(name)?.get(field)?;
            item.as_float().or_else(|| item.as_integer().map(|whole| whole as f64)).filter(|number| *number >= 0.0)
        };
        Some(Figure { value: number("value")?, percent: number("percent")? })
    }

    /// The verdict on a figure that is `now`.
    pub(crate) fn judge(&self, name: &str, now: f64) -> Verdict {
        let Some(was) = self.figure(name) else { return Verdict::Unknown };
        // The values in the file are rounded to two decimal places.
        let slack = was.value * was.percent / 100.0 + 0.005;
        if now > was.value + slack {
            Verdict::Worse(was)
        } else if now < was.value - slack {
            Verdict::Better(was)
        } else {
            Verdict::AsAccepted
        }
    }

    /// Accepts that a figure is `now`, for the reason `why`.
    pub(crate) fn accept(&mut self, name: &str, now: f64, why: &str) {
        let entry = self.0.entry(name).or_insert_with(|| Item::Table(Table::from_iter([("percent", DEFAULT_PERCENT)])));
        entry["value"] = if now >= 100.0 { value(now.round() as i64) } else { value((now * 100.0).round() / 100.0) };
        entry["why"] = value(why);
    }
}

impl Verdict {
    /// Whether the figure passes.
    pub(crate) fn is_fine(self) -> bool {
        matches!(self, Self::AsAccepted | Self::Better(_))
    }

    /// Returns what is different, and what to do; `None` if the figure is as accepted.
    pub(crate) fn advice(self) -> Option<String> {
        let accepted = |was: Figure| format!("the accepted value is {} ± {} %", super::rounded(was.value), was.percent);
        let words = match self {
            Self::AsAccepted => return None,
            Self::Worse(was) => format!(
                "{}. Find the change that made it more expensive, and correct it. If the change is worth the cost, \
                 `cargo xtask steady --accept WHY` writes the figure and the reason into the file.",
                accepted(was)
            ),
            Self::Better(was) => format!(
                "{}. Better! `cargo xtask steady --accept WHY` writes it into the file, so that a later loss is noticed.",
                accepted(was)
            ),
            Self::Unknown => {
                "no value is accepted yet; `cargo xtask steady --accept WHY` writes this one into the file.".to_owned()
            }
        };
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# Of a call.\n[calls]\nvalue = 40\npercent = 5.0 # a little\nwhy = \"measured\"\n";

    #[test]
    fn a_figure_is_compared_with_the_accepted_value_and_its_tolerance() {
        let accepted = Accepted::read(FILE).unwrap();
        let was = Figure { value: 40.0, percent: 5.0 };
        for (now, verdict) in [
            (42.0, Verdict::AsAccepted),
            (38.0, Verdict::AsAccepted),
            (42.1, Verdict::Worse(was)),
            (37.9, Verdict::Better(was)),
        ] {
            assert_eq!(accepted.judge("calls", now), verdict, "{now}");
        }
        assert_eq!(accepted.judge("others", 1.0), Verdict::Unknown);
        assert!(!Verdict::Worse(was).is_fine() && !Verdict::Unknown.is_fine() && Verdict::Better(was).is_fine());
    }

    #[test]
    fn accepting_changes_the_figure_and_its_reason_and_nothing_else() {
        let mut accepted = Accepted::read(FILE).unwrap();
        accepted.accept("calls", 31.236, "fewer copies");
        assert_eq!(accepted.text(), FILE.replace("40", "31.24").replace("measured", "fewer copies"));
        accepted.accept("bytes", 1234.5, "new");
        let again = Accepted::read(&accepted.text()).unwrap();
        assert_eq!(again.judge("bytes", 1235.0), Verdict::AsAccepted);
        assert_eq!(again.figure("bytes").map(|figure| figure.percent), Some(DEFAULT_PERCENT));
    }

    #[test]
    fn a_figure_without_a_reason_is_refused() {
        for bad in ["[calls]\nvalue = 4\npercent = 5\n", "[calls]\nvalue = \"4\"\npercent = 5\nwhy = \"so\"\n"] {
            assert!(Accepted::read(bad).unwrap_err().to_string().contains("calls needs"), "{bad}");
        }
    }
}
