//! Reads `egress`: the hosts and ports to which Toolrack may send requests.

use toolrack_host::egress::{EgressRules, Profile, Proxy};

use crate::{
    document::Document,
    node::{Node, Value},
    problem::Problem,
    rows::EGRESS,
};

/// Reads `egress = "hosted"`, or a table. After an error, only HTTPS to public addresses is allowed, so that no request
/// goes to an address that the file may forbid.
pub(super) fn read(document: &Document, node: &Node) -> (EgressRules, Vec<Problem>) {
    let source = super::shown_path(document);
    let mut reader = EgressReader { document, problems: Vec::new() };
    let profile = match &node.value {
        Value::Text(_) => reader.profile("egress", node),
        Value::Map(_) => {
            node.get("profile").map_or(Profile::Local, |member| reader.profile("egress.profile", &member.node))
        }
        _ => {
            reader.report_invalid("egress", "`local`, `hosted` or a table", node);
            Profile::Hosted
        }
    };
    let ports = reader.items(node, "ports", "whole numbers from 1 to 65535", |item| match &item.value {
        Value::Number(number) => number.as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0),
        _ => None,
    });
    let expected = "hosts, such as `mcp.example.com` or `*.example.com`, addresses and networks, such as `10.1.0.0/16`";
    let allow = reader.items(node, "allow", expected, |item| item.as_text()?.parse().ok());
    let proxy = node.get("proxy").map_or(Proxy::Environment, |member| reader.proxy(&member.node));
    let rules = EgressRules { profile, ports: ports.into_iter().collect(), allow, proxy, source: source.clone() };
    (if reader.problems.is_empty() { rules } else { EgressRules::strictest(source) }, reader.problems)
}

/// Reads the rules of one file, and collects their problems.
struct EgressReader<'a> {
    document: &'a Document,
    problems: Vec<Problem>,
}

impl EgressReader<'_> {
    fn report_invalid(&mut self, field: &str, expected: &str, node: &Node) {
        let problem = Problem::error(format!("`{field}` must be {expected}")).field(field);
        let hint = "until then, only public addresses are contacted, and only with https";
        self.problems.push(self.document.locate(problem.hint(hint), node.span.clone()));
    }

    fn profile(&mut self, field: &str, node: &Node) -> Profile {
        match node.as_text() {
            Some("local") => return Profile::Local,
            Some("hosted") => {}
            _ => self.report_invalid(field, &EGRESS.words("profile"), node),
        }
        Profile::Hosted
    }

    fn proxy(&mut self, node: &Node) -> Proxy {
        node.as_text().and_then(|text| text.parse().ok()).unwrap_or_else(|| {
            self.report_invalid("egress.proxy", "the http or https URL of a proxy, `environment` or `off`", node);
            Proxy::Off
        })
    }

    /// Reads the list `name`, each item with `read`. Reports an error for each item that `read` does not accept.
    fn items<T>(&mut self, node: &Node, name: &str, expected: &str, read: impl Fn(&Node) -> Option<T>) -> Vec<T> {
        let Some(member) = node.get(name) else { return Vec::new() };
        let field = format!("egress.{name}");
        let Value::List(items) = &member.node.value else {
            self.report_invalid(&field, &format!("a list of {expected}"), &member.node);
            return Vec::new();
        };
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            match read(item) {
                Some(value) => values.push(value),
                None => self.report_invalid(&field, &format!("a list of {expected}"), item),
            }
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ReadContext, Settings};

    fn read(text: &str) -> (EgressRules, Vec<Problem>) {
        let (settings, problems) =
            Settings::read(&Document::new(Some("toolrack.toml".into()), text), ReadContext::default());
        (settings.egress, problems)
    }

    #[test]
    fn egress_is_a_profile_name_or_a_table() {
        assert_eq!(read("").0, EgressRules::default());
        for (text, profile) in [
            ("egress = \"local\"", Profile::Local),
            ("egress = \"hosted\"", Profile::Hosted),
            ("[egress]\n", Profile::Local),
            ("[egress]\nprofile = \"hosted\"", Profile::Hosted),
        ] {
            let (rules, problems) = read(text);
            assert_eq!((rules.profile, &*rules.source, problems), (profile, "toolrack.toml", Vec::new()), "{text}");
        }
        let (rules, problems) = read(
            "[egress]\nprofile = \"hosted\"\nports = [8443]\nallow = [\"10.1.0.0/16\", \"*.corp.example\"]\n\
             proxy = \"http://u:hunter2@proxy.example:3128\"\n",
        );
        assert_eq!(problems, []);
        assert_eq!((rules.ports.len(), rules.allow.len()), (1, 2));
        assert!(matches!(&rules.proxy, Proxy::At(url) if url.host_str() == Some("proxy.example")));
        assert!(!format!("{rules:?}").contains("hunter2"));
        assert_eq!(read("egress.proxy = \"off\"").0.proxy, Proxy::Off);
    }

    #[test]
    fn a_wrong_egress_setting_allows_only_https_to_public_addresses() {
        for (text, field, line) in [
            ("egress = \"none\"", "egress", 1),
            ("egress = true", "egress", 1),
            ("[egress]\nprofile = \"open\"", "egress.profile", 2),
            ("[egress]\nports = [0]", "egress.ports", 2),
            ("[egress]\nports = 8443", "egress.ports", 2),
            ("[egress]\nallow = [\"10.0.0.0/8\", \"http://x/\"]", "egress.allow", 2),
            ("[egress]\nproxy = \"socks5://x\"", "egress.proxy", 2),
        ] {
            let (rules, problems) = read(text);
            assert_eq!(rules, EgressRules::strictest("toolrack.toml"), "{text}");
            assert_eq!((problems[0].field.as_deref(), problems[0].line), (Some(field), Some(line)), "{text}");
        }
        assert_eq!(read("[egress\n").0, EgressRules::strictest("toolrack.toml"), "a file that cannot be read");
        let (_, problems) = read("[egress]\nport = [1]");
        assert_eq!(problems[0].hint.as_deref(), Some("did you mean `egress.ports`?"));
    }
}
