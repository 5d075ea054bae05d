//! Parameters of a request: each at most once (OAuth 2.1, 3.1 and 3.2).

use url::form_urlencoded;

/// The most bytes of all parameters.
pub(crate) const MAX_BYTES: usize = 16 * 1024;

/// The parameters of a query or a form.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads them; `None` if there are too many bytes.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let read = || form_urlencoded::parse(text.as_bytes()).into_owned().collect();
        (text.len() <= MAX_BYTES).then(|| Self(read()))
    }

    /// The value of a parameter. An empty one counts as left out (OAuth 2.1, 3.1).
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, value)| own == name && !value.is_empty()).map(|(_, value)| &**value)
    }

    /// The values of a parameter that may be there more than once.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(own, value)| own == name && !value.is_empty()).map(|(_, value)| &**value)
    }

    /// The first parameter that is there twice, but for `resource` (RFC 8707, 2).
    pub(crate) fn repeated(&self) -> Option<&str> {
        let is_repeated = |at: usize, name: &String| self.0[..at].iter().any(|(other, _)| other == name);
        let mut named = self.0.iter().enumerate().filter(|(_, (name, _))| name != "resource");
        named.find(|(at, (name, _))| is_repeated(*at, name)).map(|(_, (name, _))| &**name)
    }
}
