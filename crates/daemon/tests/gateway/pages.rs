//! Lists in pages, and the cursors between them.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use toolrack_daemon::gateway::GatewayOptions;
use toolrack_host::Call;

use crate::world::{Raw, World, fake, json_of, object, request, until};

/// Each list: its method, the member with the items, and the member that names an item.
const LISTS: [(&str, &str, &str); 4] = [
    ("tools/list", "tools", "name"),
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    ("prompts/list", "prompts", "name"),
];

async fn small_pages() -> World {
    let mut options = GatewayOptions::default();
    options.bounds.page = 2;
    World::with([("one", fake("")), ("two", fake("")), ("three", fake(""))], options).await
}

/// Sends a request as a client of one of the eras.
async fn ask(raw: &Raw, is_modern: bool, method: &str, params: Value) -> Value {
    match is_modern {
        true => json_of(raw.modern(1, method, params).await).await,
        false => json_of(raw.post(&request(1, method, params), &[]).await).await,
    }
}

#[tokio::test]
async fn the_pages_of_every_list_hold_each_item_once_and_in_order_in_both_eras() {
    let world = small_pages().await;
    let (modern, legacy) = (Raw::new(&world), Raw::legacy(&world, json!({})).await);
    for (method, member, key) in LISTS {
        let mut of_eras = Vec::new();
        for (raw, is_modern) in [(&modern, true), (&legacy, false)] {
            let (mut names, mut params, mut pages) = (Vec::new(), json!({}), 0);
            loop {
                let page = ask(raw, is_modern, method, params).await["result"].clone();
                let items = page[member].as_array().unwrap_or_else(|| panic!("{method}: {page}"));
                assert!(items.len() <= 2 && !items.is_empty(), "{method}: {page}");
                names.extend(items.iter().map(|item| item[key].as_str().unwrap().to_owned()));
                pages += 1;
                // Without a next page, `null` could be taken for a cursor.
                let Some(next) = page.get("nextCursor") else { break };
                params = json!({ "cursor": next.as_str().unwrap() });
            }
            assert!(pages > 1, "{method}");
            assert!(names.is_sorted() && names.iter().collect::<BTreeSet<_>>().len() == names.len(), "{names:?}");
            of_eras.push(names);
        }
        assert_eq!(of_eras[0], of_eras[1], "{method}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_cursor_that_the_gateway_cannot_have_made_is_refused_by_every_list_in_both_eras() {
    let world = small_pages().await;
    let (modern, legacy) = (Raw::new(&world), Raw::legacy(&world, json!({})).await);
    for (method, _, _) in LISTS {
        for cursor in
            [json!("page 2"), json!("_w"), json!("AA=="), json!("a"), json!(2), json!({}), json!(["a"]), json!(true)]
        {
            for (raw, is_modern) in [(&modern, true), (&legacy, false)] {
                let answer = ask(raw, is_modern, method, json!({ "cursor": cursor })).await;
                assert_eq!(answer["error"]["code"], -32602, "{method} {cursor}: {answer}");
                assert!(!answer["error"]["message"].as_str().unwrap().is_empty(), "{answer}");
            }
        }
        let first = ask(&modern, true, method, json!({})).await;
        for absent in [json!({ "cursor": null }), json!({ "cursor": "" })] {
            let answer = ask(&modern, true, method, absent.clone()).await;
            assert_eq!(answer["result"], first["result"], "{method} {absent}");
        }
    }
    world.end().await;
}

#[tokio::test]
async fn a_cursor_still_leads_on_after_tools_have_come_and_gone() {
    let world = small_pages().await;
    let raw = Raw::new(&world);
    let names = |page: &Value| {
        let tools = page["result"]["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let first = ask(&raw, true, "tools/list", json!({})).await;
    let cursor = json!({ "cursor": first["result"]["nextCursor"] });
    let second = ask(&raw, true, "tools/list", cursor.clone()).await;
    // The new tool comes before the place of the cursor.
    let call = Call::from_map("one/tools_changed", object(json!({"add": "aaa"})));
    world.host.call(call).await.unwrap();
    until("it is listed", || world.host.catalog().select("one/aaa").is_ok()).await;
    assert_eq!(names(&ask(&raw, true, "tools/list", cursor.clone()).await), names(&second), "nothing comes twice");
    assert!(names(&ask(&raw, true, "tools/list", json!({})).await).contains(&"mcp__one__aaa".to_owned()));
    // A client with a smaller view gets the rest of that view.
    let narrow = Raw::new(&world).at("servers=two");
    let rest = names(&ask(&narrow, true, "tools/list", cursor).await);
    assert!(rest.len() == 2 && rest.iter().all(|name| name.starts_with("mcp__two__")), "{rest:?}");
    world.end().await;
}
