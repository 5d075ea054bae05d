//! Reads the parameters of a request. Each parameter may occur only once (OAuth 2.1, 3.1 and 3.2).

use url::form_urlencoded;

/// The maximum size of all parameters, in bytes.
pub(crate) const MAX_BYTES: usize = 16 * 1024;

/// The parameters of a query or a form.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads the parameters in `text`; `None` if the text is longer than [`MAX_BYTES`].
    pub(crate) fn read(text: &str) -> Option<Self> {
        let read = || form_urlencoded::parse(text.as_bytes()).into_owned().collect();
        (text.len() <= MAX_BYTES).then(|| Self(read()))
    }

    /// The value of a parameter. An empty value counts as missing (OAuth 2.1, 3.1).
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| &**value)
    }

    /// The values of a parameter that may be there more than once.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, value)| key == name && !value.is_empty()).map(|(_, value)| &**value)
    }

    /// The first parameter that occurs twice. Ignores `resource`, which alone may occur more than once (RFC 8707, 2).
    pub(crate) fn repeated(&self) -> Option<&str> {
        let occurs_before = |index: usize, name: &String| self.0[..index].iter().any(|(other, _)| other == name);
        let mut unique_only = self.0.iter().enumerate().filter(|(_, (name, _))| name != "resource");
        unique_only.find(|(index, (name, _))| occurs_before(*index, name)).map(|(_, (name, _))| &**name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Parameters {
        Parameters::read(text).unwrap()
    }

    #[test]
    fn an_empty_parameter_counts_as_left_out() {
        let parameters = read("client_id=&scope=mcp&state");
        assert_eq!((parameters.get("client_id"), parameters.get("scope")), (None, Some("mcp")));
        assert_eq!((parameters.get("state"), parameters.get("code")), (None, None));
        assert_eq!(parameters.all("client_id").count(), 0);
    }

    #[test]
    fn values_are_decoded_once_and_odd_bytes_break_nothing() {
        let parameters = read("a=%2526&b=1+2%2B3&c=%zz&d=%ff&=x&&e=a=b");
        assert_eq!(parameters.get("a"), Some("%26"), "not twice");
        assert_eq!(parameters.get("b"), Some("1 2+3"));
        assert_eq!(parameters.get("c"), Some("%zz"));
        assert_eq!(parameters.get("d"), Some("\u{fffd}"));
        assert_eq!(parameters.get("e"), Some("a=b"));
        assert_eq!(parameters.get(""), Some("x"));
    }

    #[test]
    fn a_repeated_parameter_is_named_also_where_one_of_the_two_is_empty_or_encoded() {
        for (text, repeated) in [
            ("", None),
            ("state=1&scope=1", None),
            ("state=1&state=1", Some("state")),
            ("state=&state=1", Some("state")),
            ("st%61te=1&state=2", Some("state")),
            ("a=1&b=1&b=2&a=2", Some("b")),
            ("State=1&state=2", None),
            ("resource=a&resource=b", None),
            ("resource=a&resource=b&code=1&code=1", Some("code")),
        ] {
            assert_eq!(read(text).repeated(), repeated, "{text}");
        }
        assert_eq!(read("resource=a&resource=&resource=b").all("resource").collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn more_bytes_than_the_bound_are_not_read() {
        let longest = format!("a={}", "x".repeat(MAX_BYTES - 2));
        assert_eq!(read(&longest).get("a").unwrap().len(), MAX_BYTES - 2);
        assert!(Parameters::read(&format!("{longest}x")).is_none());
    }
}
