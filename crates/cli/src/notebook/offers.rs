//! Caches the prompts and resources of servers for completion, as the servers last listed them. An offer is a prompt or
//! a resource. The tools are in another file, because other commands list them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use toolrack_host::mcp::{Prompt, Resource};

use super::{
    Argument, ConfiguredServer, FORMAT_VERSION, MAX_ARGUMENTS, MAX_TOOLS, Notebook, is_shell_safe, is_worth_completing,
    read_note, short_description,
};

/// The most bytes of a URI that is worth completing.
const MAX_URI_BYTES: usize = 512;

/// The data about a prompt or a resource that completion needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Offer {
    /// The prompt's name, or the resource's URI.
    pub(crate) name: String,
    /// Safe to print, and short.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) about: String,
    /// The arguments of a prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) arguments: Vec<Argument>,
}

/// The content of one file. `form` and `hash` are as in `Note`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Offers {
    form: u32,
    hash: String,
    #[serde(default)]
    pub(crate) prompts: Vec<Offer>,
    #[serde(default)]
    pub(crate) resources: Vec<Offer>,
}

/// The prompts or the resources of a server.
#[derive(Clone, Debug)]
pub(crate) enum OfferList {
    Prompts(Vec<Offer>),
    Resources(Vec<Offer>),
}

impl OfferList {
    /// Creates a list of prompts. `conceal` hides the secrets that the server was given, because its texts may repeat
    /// them.
    pub(crate) fn from_prompts(prompts: &[Prompt], conceal: &dyn Fn(&str) -> String) -> Self {
        let text = |text: &Option<String>| short_description(text.as_deref().map(conceal).as_deref());
        let offer = |prompt: &Prompt| {
            let arguments =
                prompt.arguments.iter().filter(|argument| is_worth_completing(&argument.name)).take(MAX_ARGUMENTS);
            let arguments = arguments.map(|argument| Argument {
                name: conceal(&argument.name),
                about: text(&argument.description),
                values: Vec::new(),
            });
            let description = if prompt.description.is_some() { &prompt.description } else { &prompt.title };
            Offer { name: conceal(&prompt.name), about: text(description), arguments: arguments.collect() }
        };
        let offers = prompts.iter().map(offer).filter(|offer| is_worth_completing(&offer.name));
        Self::Prompts(offers.take(MAX_TOOLS).collect())
    }

    /// Creates a list of resources, as [`Self::from_prompts`].
    pub(crate) fn from_resources(resources: &[Resource], conceal: &dyn Fn(&str) -> String) -> Self {
        let offer = |resource: &Resource| {
            let description = resource.title.as_deref().unwrap_or(&resource.name);
            Offer {
                name: conceal(&resource.uri),
                about: short_description(Some(&conceal(description))),
                arguments: Vec::new(),
            }
        };
        let can_be_completed = |offer: &Offer| offer.name.len() <= MAX_URI_BYTES && is_shell_safe(&offer.name);
        Self::Resources(resources.iter().map(offer).filter(can_be_completed).take(MAX_TOOLS).collect())
    }
}

impl Notebook {
    fn offers_file(&self, server: &ConfiguredServer) -> PathBuf {
        self.folder.join(format!("{}.offers.json", server.file_stem))
    }

    /// Returns the noted prompts and resources of `server`; none if its entry has changed since.
    pub(crate) fn read_offers(&self, server: &ConfiguredServer) -> Offers {
        let note = read_note(&self.offers_file(server)).and_then(|text| serde_json::from_str::<Offers>(&text).ok());
        note.filter(|note| note.form == FORMAT_VERSION && note.hash == server.hash).unwrap_or_default()
    }

    /// Notes one of the lists of `server`.
    pub(crate) fn write_offers(&self, server: &ConfiguredServer, list: OfferList) {
        let offers = Offers { form: FORMAT_VERSION, hash: server.hash.clone(), ..self.read_offers(server) };
        let offers = match list {
            OfferList::Prompts(prompts) => Offers { prompts, ..offers },
            OfferList::Resources(resources) => Offers { resources, ..offers },
        };
        if let Ok(text) = serde_json::to_string(&offers) {
            self.write_if_changed(&self.offers_file(server), &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolrack_config::trust::content_hash;

    use super::*;

    fn server(hash: &str) -> ConfiguredServer {
        ConfiguredServer { name: "docs".to_owned(), file_stem: content_hash(&json!("docs")), hash: hash.to_owned() }
    }

    fn resources(uris: &[&str]) -> OfferList {
        let resources: Vec<Resource> = uris
            .iter()
            .map(|uri| serde_json::from_value(json!({ "uri": uri, "name": "canary's\u{1b}[2J" })).unwrap())
            .collect();
        OfferList::from_resources(&resources, &|text| text.replace("canary", "***"))
    }

    fn prompts(names: &[&str]) -> OfferList {
        let arguments = json!([{ "name": "who", "description": "Whom.\nMore." }, { "name": "a b" }]);
        let prompt = |name: &&str| json!({ "name": name, "arguments": arguments });
        let prompts: Vec<Prompt> = names.iter().map(|name| serde_json::from_value(prompt(name)).unwrap()).collect();
        OfferList::from_prompts(&prompts, &|text| text.replace("canary", "***"))
    }

    fn names(offers: &[Offer]) -> Vec<&str> {
        offers.iter().map(|offer| offer.name.as_str()).collect()
    }

    #[test]
    fn each_list_is_noted_on_its_own_and_only_for_the_entry_that_was_connected() {
        let data = tempfile::tempdir().unwrap();
        let notebook = Notebook::below(data.path());
        notebook.write_offers(&server("one"), resources(&["file:///a"]));
        notebook.write_offers(&server("one"), prompts(&["greet"]));
        let noted = notebook.read_offers(&server("one"));
        assert_eq!((names(&noted.resources), names(&noted.prompts)), (vec!["file:///a"], vec!["greet"]));
        assert_eq!(noted.prompts[0].arguments.len(), 1, "a shell takes only one of them as it is");
        assert_eq!(noted.prompts[0].arguments[0].about, "Whom.");
        notebook.write_offers(&server("two"), prompts(&["other"]));
        let noted = notebook.read_offers(&server("two"));
        assert_eq!((names(&noted.resources), names(&noted.prompts)), (vec![], vec!["other"]));
        assert_eq!(names(&notebook.read_offers(&server("one")).prompts), [] as [&str; 0]);
    }

    #[test]
    fn only_names_without_quotes_and_without_secrets_are_noted() {
        let data = tempfile::tempdir().unwrap();
        let notebook = Notebook::below(data.path());
        let long = format!("x://{}", "y".repeat(MAX_URI_BYTES));
        notebook
            .write_offers(&server("one"), resources(&["x://ok", "x://$(id)", "-rf", "x://a b", "x://canary", &long]));
        notebook.write_offers(&server("one"), prompts(&["$(id)", "ok", "canary"]));
        let noted = notebook.read_offers(&server("one"));
        assert_eq!((names(&noted.resources), names(&noted.prompts)), (vec!["x://ok"], vec!["ok"]));
        assert_eq!(noted.resources[0].about, "***'s\\u{1b}[2J");
    }
}
