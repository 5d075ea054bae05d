use serde_json::json;
use toolrack_testkit::{Home, SideEffects};

use crate::up::{Up, fake, project};

#[tokio::test]
async fn what_a_project_brings_runs_only_after_exactly_that_was_approved() {
    let effects = SideEffects::new();
    let home = Home::new();
    project(&home, &[("theirs", fake(&["--log", effects.path_str()]))]);
    let up = Up::of(home).await;
    assert_eq!(up.until("theirs", "pending_trust").await["scope"], "project");
    let (status, error) = up.post("/api/v1/servers/theirs/connect", json!({})).await;
    assert_eq!((status.as_u16(), &error["error"]["code"]), (409, &json!("NOT_TRUSTED")));

    let pending = up.get("/api/v1/trust").await["pending"][0].clone();
    let (name, place) = (&pending["name"], &pending["project"]);
    let (status, _) =
        up.post("/api/v1/trust/approve", json!({ "project": place, "name": name, "hash": "0".repeat(64) })).await;
    assert_eq!(status, 409);
    assert!(effects.read().methods().is_empty(), "it was started");
    let approval = json!({ "project": place, "name": name, "hash": pending["hash"] });
    assert_eq!(up.post("/api/v1/trust/approve", approval).await.0, 204);
    up.until("theirs", "connected").await;
    assert_eq!(up.get("/api/v1/trust").await["trusted"][0]["name"], *name);

    assert_eq!(up.post("/api/v1/trust/revoke", json!({ "project": place, "name": name })).await.0, 204);
    up.until("theirs", "pending_trust").await;
    up.down().await;
}

#[tokio::test]
async fn an_approved_entry_that_changes_waits_again_and_shows_what_was_approved() {
    let home = Home::new();
    project(&home, &[("theirs", fake(&[]))]);
    let up = Up::of(home).await;
    let pending = up.get("/api/v1/trust").await["pending"][0].clone();
    let approval = json!({ "project": pending["project"], "name": "theirs", "hash": pending["hash"] });
    assert_eq!(up.post("/api/v1/trust/approve", approval).await.0, 204);
    up.until("theirs", "connected").await;
    project(&up.home, &[("theirs", fake(&["--tools", "3"]))]);
    up.until("theirs", "pending_trust").await;
    let again = up.get("/api/v1/trust").await["pending"][0].clone();
    assert_eq!(again["before"]["args"], pending["config"]["args"]);
    assert_ne!(again["config"]["args"], pending["config"]["args"]);
    up.down().await;
}
