//! Reads the standard variables of the environment that decide whether a signal (traces or metrics) is sent to a
//! collector.

/// A variable of the environment has a value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{signal} are not sent: `{name}` is `{value}`, and should be {expected}")]
pub struct BadVariable {
    pub(crate) signal: &'static str,
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) expected: &'static str,
}

/// A kind of data that is sent, with the variables that configure only this kind.
pub(crate) struct Signal {
    /// Its name in messages.
    pub(crate) name: &'static str,
    /// The variable that names the exporter of this signal.
    pub(crate) exporter_variable: &'static str,
    /// The variable that names the collector's endpoint for this signal.
    pub(crate) endpoint_variable: &'static str,
}

impl Signal {
    pub(crate) const METRICS: Self = Self {
        name: "metrics",
        exporter_variable: "OTEL_METRICS_EXPORTER",
        endpoint_variable: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    };
    pub(crate) const TRACES: Self = Self {
        name: "traces",
        exporter_variable: "OTEL_TRACES_EXPORTER",
        endpoint_variable: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    };

    /// Returns whether the environment wants the signal to be sent: `variable` gets the name of a variable, and returns
    /// its value. An empty value counts as none.
    ///
    /// # Errors
    /// [`BadVariable`] when the variable for the exporter names an exporter that Toolrack does not have.
    pub(crate) fn is_sent(&self, variable: impl Fn(&str) -> Option<String>) -> Result<bool, BadVariable> {
        let non_empty = |name: &str| variable(name).filter(|value| !value.is_empty());
        let is_disabled = non_empty("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let endpoint_variables = [self.endpoint_variable, "OTEL_EXPORTER_OTLP_ENDPOINT"];
        if is_disabled || !endpoint_variables.iter().any(|name| non_empty(name).is_some()) {
            return Ok(false);
        }
        match non_empty(self.exporter_variable) {
            None => Ok(true),
            Some(exporter) if exporter == "otlp" => Ok(true),
            Some(exporter) if exporter == "none" => Ok(false),
            Some(value) => Err(self.bad_variable(self.exporter_variable, value, "`otlp` or `none`")),
        }
    }

    pub(crate) fn bad_variable(&self, name: &'static str, value: String, expected: &'static str) -> BadVariable {
        BadVariable { signal: self.name, name, value, expected }
    }
}

/// Returns whether the environment wants traces to be sent: it names a collector, and does not switch traces off with
/// `OTEL_TRACES_EXPORTER=none` or `OTEL_SDK_DISABLED=true`. `variable` gets the name of a variable, and returns its
/// value.
///
/// # Errors
/// [`BadVariable`] names the variable, its value, and what the value should be.
pub fn traces_are_sent(variable: impl Fn(&str) -> Option<String>) -> Result<bool, BadVariable> {
    Signal::TRACES.is_sent(variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_follow_the_same_variables_as_metrics() {
        let collector = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
        for (variables, expected) in [
            (vec![], Ok(false)),
            (vec![collector], Ok(true)),
            (vec![("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4318")], Ok(true)),
            (vec![("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:4318")], Ok(false)),
            (vec![collector, ("OTEL_SDK_DISABLED", "TRUE")], Ok(false)),
            (vec![collector, ("OTEL_TRACES_EXPORTER", "none")], Ok(false)),
            (vec![collector, ("OTEL_TRACES_EXPORTER", "")], Ok(true)),
            (
                vec![collector, ("OTEL_TRACES_EXPORTER", "zipkin")],
                Err("traces are not sent: `OTEL_TRACES_EXPORTER` is `zipkin`, and should be `otlp` or `none`"
                    .to_owned()),
            ),
        ] {
            let variable = |wanted: &str| {
                let found = variables.iter().find(|(name, _)| *name == wanted);
                found.map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(traces_are_sent(variable).map_err(|error| error.to_string()), expected, "{variables:?}");
        }
    }
}
