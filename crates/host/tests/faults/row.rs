//! Tables of faults: one row, one test in each era.

use serde_json::json;
use toolrack_host::{Era, ServerSpec};

use crate::stage::{AT_ONCE, Over, SLACK, Stage};

/// `rows! { table: Over in [legacy modern] { a_name: "the script" => what_must_come_of_it; … } }`
///
/// Several transports can have their rows in common: `rows! { one: Stdio, other: Http in [legacy modern] { … } }`
macro_rules! rows {
    ($table:ident: $over:ident, $($others:ident: $of_others:ident),+ in $eras:tt $rows:tt) => {
        $crate::row::rows! { $table: $over in $eras $rows }
        $($crate::row::rows! { $others: $of_others in $eras $rows })+
    };
    ($table:ident: $over:ident in [$($era:ident)+] $rows:tt) => {
        mod $table {
            $($crate::row::rows! { @era $era $over $rows })+
        }
    };
    (@era $era:ident $over:ident { $($name:ident: $script:expr => $wanted:expr;)+ }) => {
        mod $era {
            use $crate::row::*;

            $(
                #[tokio::test]
                async fn $name() {
                    let era = era(stringify!($era));
                    play($crate::stage::Over::$over, era, $script, $wanted).await;
                }
            )+
        }
    };
}
pub(crate) use rows;

pub(crate) fn era(name: &str) -> Era {
    if name == "modern" { Era::Modern } else { Era::Legacy }
}

/// The expected outcome of a row.
#[derive(Debug)]
pub(crate) struct Wanted {
    ends: Ends,
    at_once: bool,
    says: Vec<&'static str>,
    warns: Vec<&'static str>,
    afterwards: Afterwards,
    requests: usize,
    change: fn(&mut ServerSpec),
}

#[derive(Clone, Copy, Debug)]
enum Ends {
    /// With this text.
    Text(&'static str),
    /// With this code.
    Code(&'static str),
}

#[derive(Clone, Copy, Debug)]
enum Afterwards {
    /// The next call goes well.
    Usable,
    /// The server was restarted with the same fault, but returns a prompt.
    StartedAnew,
    /// The server never connected.
    Away,
    /// The server cannot be used any more.
    Lost,
}

/// The call returns this text.
pub(crate) fn answers(text: &'static str) -> Wanted {
    Wanted::new(Ends::Text(text), Afterwards::Usable)
}

/// The call fails with this code; the next one goes well.
pub(crate) fn fails(code: &'static str) -> Wanted {
    Wanted::new(Ends::Code(code), Afterwards::Usable)
}

/// The server cannot be connected; a call fails with this code.
pub(crate) fn stays_away(code: &'static str) -> Wanted {
    Wanted::new(Ends::Code(code), Afterwards::Away)
}

impl Wanted {
    fn new(ends: Ends, afterwards: Afterwards) -> Self {
        Self { ends, at_once: false, says: Vec::new(), warns: Vec::new(), afterwards, requests: 1, change: |_| {} }
    }

    /// The call ends at once, without waiting for a deadline.
    pub(crate) fn at_once(self) -> Self {
        Self { at_once: true, ..self }
    }

    /// The error holds these words.
    pub(crate) fn saying(mut self, words: &'static str) -> Self {
        self.says.push(words);
        self
    }

    /// An event or the outcome warns with these words.
    pub(crate) fn warning(mut self, words: &'static str) -> Self {
        self.warns.push(words);
        self
    }

    /// The process ended, and the host started another one, which has the same fault.
    pub(crate) fn and_restarts(self) -> Self {
        Self { afterwards: Afterwards::StartedAnew, ..self }
    }

    /// The server cannot be used any more.
    pub(crate) fn for_good(self) -> Self {
        Self { afterwards: Afterwards::Lost, ..self }
    }

    /// The transport may send the call this often.
    pub(crate) fn in_requests(self, requests: usize) -> Self {
        Self { requests, ..self }
    }

    /// The server gets a changed entry.
    pub(crate) fn with(self, change: fn(&mut ServerSpec)) -> Self {
        Self { change, ..self }
    }
}

/// Runs the test of one row.
pub(crate) async fn play(over: Over, era: Era, script: &str, wanted: Wanted) {
    let mut stage = Stage::new(over, era, script).await;
    (wanted.change)(&mut stage.spec);
    stage.requests_per_call = wanted.requests;
    let status = stage.start().await;
    if matches!(wanted.afterwards, Afterwards::Away) {
        assert_ne!(status.state.word(), "connected", "{:?}", status.state);
    } else {
        assert_eq!(status.era, Some(era), "{:?}", status.state);
    }
    let limit = if wanted.at_once { AT_ONCE } else { stage.spec.timeouts.call + SLACK };
    let called = stage.call("write", json!({})).await.within(limit);
    let words = match wanted.ends {
        Ends::Text(text) => {
            assert_eq!(called.text(), text);
            String::new()
        }
        Ends::Code(code) => {
            let (got, words) = called.failure();
            assert_eq!(got, code, "{words}");
            words
        }
    };
    for part in &wanted.says {
        assert!(words.contains(part), "`{part}` is not in: {words}");
    }
    let mut warnings = stage.witness.warnings();
    warnings.extend(called.result.iter().flat_map(|outcome| outcome.warnings.clone()));
    for warned in &wanted.warns {
        assert!(warnings.iter().any(|warning| warning.contains(warned)), "no `{warned}` in {warnings:#?}");
    }
    match wanted.afterwards {
        Afterwards::Usable => assert_eq!(stage.call("echo", json!({"text": "still here"})).await.text(), "still here"),
        Afterwards::StartedAnew => {
            let prompt = stage.prompt().await;
            assert!(prompt.as_ref().is_ok_and(|text| text.contains("Ada")), "{prompt:?}");
        }
        Afterwards::Away => assert!(stage.prompt().await.is_err()),
        Afterwards::Lost => {}
    }
    stage.finish().await;
}
