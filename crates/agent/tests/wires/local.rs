use serde_json::json;
use toolrack_agent::model::local;
use toolrack_testkit::{FakeModel, model::Answer};

#[tokio::test]
async fn servers_that_run_here_are_found_with_their_models() {
    let tags = json!({"models": [{"name": "qwen3:8b"}, {"name": "evil\u{1b}[31m"}]});
    let ollama = FakeModel::start([
        Answer::json(200, &tags),
        Answer::json(200, &json!({"capabilities": ["completion", "tools"]})),
    ])
    .await;
    let lmstudio =
        FakeModel::start([Answer::json(200, &json!({"object": "list", "data": [{"id": "b"}, {"id": "a"}]}))]).await;
    let page = FakeModel::start([Answer::new(200, "text/html", "<html>")]).await;
    let silent = FakeModel::start([Answer::new(200, "application/json", "{").stall_after()]).await;
    let found = local::find_servers_at([
        ("ollama", ollama.url() + "/v1"),
        ("lmstudio", lmstudio.url() + "/v1"),
        ("llamacpp", page.url()),
        ("llamacpp", silent.url()),
    ])
    .await;
    let found = serde_json::to_value(&found).unwrap();
    assert_eq!(
        found,
        json!([
            {"provider": "ollama", "base_url": ollama.url() + "/v1", "models": [{"name": "qwen3:8b", "tools": true}]},
            {"provider": "lmstudio", "base_url": lmstudio.url() + "/v1",
             "models": [{"name": "a", "tools": null}, {"name": "b", "tools": null}]},
        ])
    );
    assert_eq!(ollama.requests()[1].json(), json!({"model": "qwen3:8b"}));
}
