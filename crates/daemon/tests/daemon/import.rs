//! Servers of other programs, imported through the daemon.

use serde_json::{Value, json};
use toolrack_testkit::{EffectLog, Home};

use crate::up::{Up, fake, servers};

const SECRET: &str = "hunter2-hunter2";

/// A home in which Cursor has `entries`.
fn home(entries: &[(&str, Value)]) -> Home {
    let home = Home::new();
    home.write("toolrack/mcp.json", servers(&[("known", fake(&[]))]));
    home.write("home/.cursor/mcp.json", servers(entries));
    home
}

fn choice(offer: &Value) -> Value {
    json!({ "client": offer["client"], "name": offer["name"], "hash": offer["hash"] })
}

#[tokio::test]
async fn an_imported_server_equals_its_view_plus_the_hidden_secret() {
    let effects = EffectLog::new();
    let mut theirs = fake(&["--log", effects.path_str()]);
    theirs["env"] = json!({ "API_KEY": SECRET });
    let up = Up::of(home(&[("theirs", theirs), ("known", fake(&[]))])).await;
    let listed = up.get("/api/v1/import").await;
    assert!(!listed.to_string().contains(SECRET), "{listed}");
    let offers = listed["offers"].as_array().unwrap();
    let names: Vec<_> = offers.iter().map(|offer| (offer["name"].as_str().unwrap(), &offer["known"])).collect();
    assert_eq!(names, [("theirs", &json!(false)), ("known", &json!(true))]);
    assert!(offers[0]["path"].as_str().unwrap().ends_with(".cursor/mcp.json"), "{listed}");
    assert!(effects.read().methods().is_empty(), "it was started by looking");

    let (status, taken) = up.post("/api/v1/import", json!({ "offers": [choice(&offers[0])] })).await;
    assert_eq!((status.as_u16(), &taken["edited"][0]["name"]), (200, &json!("theirs")), "{taken}");
    assert!(!taken.to_string().contains(SECRET) && !up.file().contains(SECRET), "{taken}");
    assert_eq!(taken["edited"][0]["secrets"], json!([{ "what": "API_KEY", "name": "theirs.API_KEY" }]));
    assert_eq!(up.vault.value("theirs.API_KEY").as_deref(), Some(SECRET));
    up.until("theirs", "connected").await;
    assert_eq!(up.get("/api/v1/import").await["offers"][0]["known"], true);
    up.down().await;
}

#[tokio::test]
async fn imported_secrets_get_names_of_their_own_or_stay_in_the_file_where_the_client_wants_that() {
    let with_key = || {
        let mut entry = fake(&[]);
        entry["env"] = json!({ "API_KEY": SECRET });
        entry
    };
    // Both names give the same name of a secret.
    let up = Up::of(home(&[("a+b", with_key()), ("a:b", with_key()), ("c", with_key())])).await;
    let offers = up.get("/api/v1/import").await["offers"].clone();
    let chosen = json!({ "offers": [choice(&offers[0]), choice(&offers[1])] });
    let (status, taken) = up.post("/api/v1/import", chosen).await;
    let names: Vec<_> = (0..2).map(|at| taken["edited"][at]["secrets"][0]["name"].as_str()).collect();
    assert_eq!((status.as_u16(), names), (200, vec![Some("a-b.API_KEY"), Some("a-b.API_KEY-2")]), "{taken}");
    assert!(!up.file().contains(SECRET), "{}", up.file());
    let (status, taken) = up.post("/api/v1/import", json!({ "offers": [choice(&offers[2])], "plain": true })).await;
    assert_eq!((status.as_u16(), up.vault.count()), (200, 2), "{taken}");
    assert!(up.file().contains(SECRET) && !taken.to_string().contains(SECRET), "{taken}");
    up.down().await;
}

#[tokio::test]
async fn of_offers_of_which_one_cannot_be_taken_over_none_is() {
    let up = Up::of(home(&[("one", fake(&[])), ("two", fake(&[]))])).await;
    let offers = up.get("/api/v1/import").await["offers"].clone();
    let (one, two) = (choice(&offers[0]), choice(&offers[1]));
    let before = up.file();
    for (member, other) in [("hash", "0".repeat(64)), ("client", "gemini".to_owned()), ("name", "three".to_owned())] {
        let mut stale = two.clone();
        stale[member] = json!(other);
        let (status, error) = up.post("/api/v1/import", json!({ "offers": [one, stale] })).await;
        assert_eq!((status.as_u16(), &error["error"]["code"]), (404, &json!("NOT_FOUND")), "{member}: {error}");
        assert_eq!(up.file(), before, "{member}");
    }
    // The other program's file changes after it was shown.
    up.home.write("home/.cursor/mcp.json", servers(&[("one", fake(&[])), ("two", fake(&["--tools", "3"]))]));
    assert_eq!(up.post("/api/v1/import", json!({ "offers": [one, two] })).await.0, 404);
    assert_eq!(up.file(), before, "another content is another offer");
    let listed = up.get("/api/v1/import").await["offers"].clone();
    let known = up.post("/api/v1/servers", json!({ "name": "two", "entry": fake(&[]) }));
    assert_eq!(known.await.0, 201);
    let before = up.file();
    for offers in [json!([one, one]), json!([one, choice(&listed[1])])] {
        let (status, error) = up.post("/api/v1/import", json!({ "offers": offers })).await;
        assert_eq!((status.as_u16(), &error["error"]["code"]), (409, &json!("EXISTS")), "{offers}");
        assert_eq!(up.file(), before, "{offers}");
    }
    let (status, none) = up.post("/api/v1/import", json!({ "offers": [] })).await;
    assert_eq!((status.as_u16(), none), (200, json!({ "edited": [] })));
    assert_eq!(up.post("/api/v1/import", json!({ "offers": [one] })).await.0, 200);
    up.down().await;
}

#[tokio::test]
async fn an_import_goes_to_the_chosen_file() {
    let up = Up::of(home(&[("theirs", fake(&[]))])).await;
    up.home.write("work/.git/HEAD", "");
    let offer = choice(&up.get("/api/v1/import").await["offers"][0]);
    let taken = async |scope: &str| up.post("/api/v1/import", json!({ "offers": [offer], "scope": scope })).await;
    assert_eq!(taken("everywhere").await.0, 400);
    let before = up.file();
    let (status, edited) = taken("project").await;
    assert_eq!((status.as_u16(), &edited["edited"][0]["scope"]), (200, &json!("project")), "{edited}");
    assert!(up.home.read("work/.mcp.json").contains("theirs"));
    assert_eq!(up.file(), before);
    up.until("theirs", "connected").await;
    up.down().await;
}
