//! Invisible characters: models and clients get text without them, pins and findings keep them.

use serde_json::{Value, json};
use toolrack_host::{
    BlockKind, Catalog, Era, Host, Listing, Selection, ServerSpec, Wire, findings::FindingKind, spec::Invisible,
};

use crate::{
    scripted::{Reaction, Scripted},
    worlds::{host_of, name, settle, status, text, world},
};

/// "Do it", in tag characters, and a zero-width space.
const HIDDEN: &str = "\u{e0044}\u{e006f}\u{e0020}\u{e0069}\u{e0074}\u{200b}";

fn hides() -> Scripted {
    let report = |words: &str| format!("{words}{HIDDEN}");
    let (instructions, listed) = (report("Be kind."), [report("A title"), report("About it")]);
    Scripted::new(Era::Legacy, move |method, _| {
        let [title, description] = &listed;
        Some(Reaction::Answer(match method {
            "initialize" => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
                "serverInfo": {"name": "scripted", "version": "1"},
                "instructions": instructions,
            }),
            "prompts/list" => json!({"prompts": [{
                "name": format!("p{HIDDEN}"), "title": title, "description": description,
                "arguments": [{"name": format!("a{HIDDEN}"), "description": description}],
            }]}),
            "resources/list" => json!({"resources": [{
                "uri": format!("x:{HIDDEN}"), "name": title, "description": description,
            }]}),
            _ => return None,
        }))
    })
    .with_tools([json!({
        "name": "look",
        "description": report("Looks."),
        "inputSchema": {
            "type": "object",
            "properties": {"what": {"type": "string", "description": report("What to look at."), "enum": [report("sun")]}},
        },
    })])
}

fn block(catalog: &Catalog) -> String {
    String::from_utf8(catalog.block(&BlockKind::new(Wire::Anthropic)).bytes().to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn models_and_clients_get_text_without_invisible_characters_and_unchanged_values() {
    let host = host_of([("a", hides().spec())]).await;
    let discovery = host.discovery(&name("discovery"), Selection::all());
    settle(&host, world([("a", hides().spec()), ("discovery", discovery)])).await;
    let catalog = host.catalog();
    let tool = catalog.select("a/look").unwrap();
    assert_eq!(tool.tool().description.as_deref(), Some("Looks."));
    let schema: Value = serde_json::from_str(tool.tool().input_schema.get()).unwrap();
    assert_eq!(schema["properties"]["what"]["description"], "What to look at.");
    assert_eq!(schema["properties"]["what"]["enum"], json!([format!("sun{HIDDEN}")]), "it has to be sent back");
    assert_eq!(block(&catalog).matches('\u{200b}').count(), 1, "only the value: {}", block(&catalog));
    let details = text(&host, "discovery/get_tool_details", json!({"name": "a/look"})).await;
    assert!(details.contains("\"Looks.\"") && details.matches('\u{200b}').count() == 1, "{details}");
    assert_eq!(status(&host, "a").instructions.as_deref(), Some("Be kind."));
    let prompt = host.prompts("a").await.unwrap().remove(0);
    assert_eq!((prompt.title.as_deref(), prompt.description.as_deref()), (Some("A title"), Some("About it")));
    assert_eq!(prompt.name, format!("p{HIDDEN}"), "it is asked for by this name");
    let listed = host.listing("a", Listing::Prompts).await.unwrap().remove(0);
    let argument = json!({"name": format!("a{HIDDEN}"), "description": "About it"});
    assert_eq!((&listed["description"], &listed["arguments"][0]), (&json!("About it"), &argument));
    let resource = host.listing("a", Listing::Resources).await.unwrap().remove(0);
    let expected = json!({"uri": format!("x:{HIDDEN}"), "name": "A title", "description": "About it"});
    assert_eq!(Value::Object(resource), expected);
}

#[tokio::test(start_paused = true)]
async fn invisible_characters_are_passed_on_if_the_entry_keeps_them_and_change_no_definition() {
    let keeping = ServerSpec { invisible: Some(Invisible::Keep), ..hides().spec() };
    let host = host_of([("keeps", keeping), ("removes", hides().spec())]).await;
    let catalog = host.catalog();
    let [keeps, removes] = ["keeps/look", "removes/look"].map(|selector| catalog.select(selector).unwrap());
    assert_eq!(keeps.tool().description.as_deref(), Some(&*format!("Looks.{HIDDEN}")));
    assert_eq!(keeps.as_listed().description, removes.as_listed().description);
    assert_eq!(keeps.definition_hash(), removes.definition_hash(), "pins judge the text as it came");
    assert_eq!(status(&host, "keeps").instructions, Some(format!("Be kind.{HIDDEN}")));
    assert_eq!(host.prompts("keeps").await.unwrap()[0].description, Some(format!("About it{HIDDEN}")));
}

#[tokio::test(start_paused = true)]
async fn findings_say_which_hidden_characters_are_left_out_and_which_are_passed_on() {
    let host = Host::builder().build();
    let keeping = ServerSpec { invisible: Some(Invisible::Keep), ..hides().spec() };
    settle(&host, world([("keeps", keeping), ("removes", hides().spec())])).await;
    let catalog = host.catalog();
    let report = |selector: &str, place: &str| {
        let findings = catalog.findings_of(catalog.select(selector).unwrap());
        let found = findings.into_iter().find(|one| one.kind == FindingKind::Hidden && one.place == place);
        found.unwrap_or_else(|| panic!("{selector} {place}")).what
    };
    let left_out = "; they spell “Do it”; they are left out of what models and clients get";
    assert!(report("removes/look", "description").ends_with(left_out), "{}", report("removes/look", "description"));
    let values = "inputSchema.properties.what.enum[0]";
    for (selector, place) in [("removes/look", values), ("keeps/look", "description")] {
        let what = report(selector, place);
        assert!(what.ends_with("; models and clients get them as they are"), "{what}");
    }
}
