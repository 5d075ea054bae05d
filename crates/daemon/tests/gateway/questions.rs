//! Questions of servers and the gate, which go to the client whose call caused them.

use std::sync::Arc;

use serde_json::json;
use tokio::time::timeout;
use toolrack_daemon::gateway::GatewayOptions;
use toolrack_host::{Abilities, Asker, Call, Host, Policy, SharedAsker, ask::Confirm, ask::Confirmed};
use toolrack_testkit::EffectLog;

use crate::world::{PATIENCE, Person, World, call, client, fake, object};

#[tokio::test]
async fn questions_of_servers_reach_the_client_over_every_way_in_both_eras() {
    for era in ["legacy", "modern"] {
        let world = World::new(&format!("--era {era}")).await;
        for (way, spec) in world.client_entries() {
            let person = Person::new();
            let host = client(spec, Some(person.clone())).await;
            let form = call(&host, "elicit", json!({"rounds": 2})).await.unwrap();
            assert!(form.text.contains("Ada"), "{era} {way}: {}", form.text);
            let url = call(&host, "elicit", json!({"mode": "url"})).await.unwrap();
            assert!(url.text.contains("accept"), "{era} {way}: {}", url.text);
            let sample = call(&host, "sample", json!({})).await.unwrap();
            assert!(sample.text.contains("Paris"), "{era} {way}: {}", sample.text);
            let roots = call(&host, "roots", json!({})).await.unwrap();
            // Without a stream for each call, the roots question of a server of the older era belongs to no client.
            assert_eq!(roots.text.contains("file:///work"), era == "modern", "{era} {way}: {}", roots.text);
            let questions = person.asked();
            assert_eq!(
                questions.iter().filter(|question| question.starts_with("form")).count(),
                2,
                "{era} {way}: {questions:?}"
            );
            assert!(questions.iter().any(|question| question.starts_with("url https://example.com/")), "{questions:?}");
            assert!(questions.contains(&"sample".to_owned()), "{era} {way}: {questions:?}");
            host.shutdown().await;
        }
        world.end().await;
    }
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_is_not_asked() {
    for era in ["legacy", "modern"] {
        let world = World::new(&format!("--era {era}")).await;
        for (way, spec) in world.client_entries() {
            let host = client(spec, None).await;
            match call(&host, "sample", json!({})).await {
                Ok(outcome) => assert!(outcome.is_error, "{era} {way}: {outcome:?}"),
                Err(error) => assert!(error.to_string().contains("capability"), "{era} {way}: {error}"),
            }
            host.shutdown().await;
        }
        world.end().await;
    }
}

/// A client that only fills in forms.
struct Forms;

impl Asker for Forms {
    fn abilities(&self) -> Abilities {
        Abilities { forms: true, ..Abilities::NONE }
    }
}

#[tokio::test]
async fn a_client_without_a_model_refuses_sampling_with_another_error_than_one_that_does_not_know_it() {
    let world = World::new("--era legacy").await;
    for (way, spec) in world.client_entries() {
        let host = client(spec, Some(Arc::new(Forms))).await;
        let refused = call(&host, "sample", json!({})).await.unwrap();
        assert!(refused.is_error && refused.text.contains(r#""code":-1,"#), "{way}: {}", refused.text);
        assert!(refused.text.contains("has no model to answer with"), "{way}: {}", refused.text);
        host.shutdown().await;
    }
    world.end().await;
}

#[tokio::test]
async fn calls_without_a_client_do_not_offer_what_only_clients_can_answer() {
    for (era, word) in
        [("legacy", "does not belong to a call of a client"), ("modern", "requires the sampling capability")]
    {
        let world = World::new(&format!("--era {era}")).await;
        let call = Call::from_map("fake/sample", object(json!({})));
        let refused = match timeout(PATIENCE, world.host.call(call)).await.unwrap() {
            Ok(outcome) => outcome.text,
            Err(error) => error.to_string(),
        };
        assert!(refused.contains(word), "{era}: {refused}");
        world.end().await;
    }
}

/// Servers whose tool `write` must be approved.
async fn guarded(effects: &EffectLog, options: GatewayOptions) -> World {
    let rules = Policy::default().allow("*".parse().unwrap()).confirm("write".parse().unwrap());
    let host = Host::builder().gate(Arc::new(rules)).build();
    World::around(host, [("fake", fake(&format!("--log {}", effects.path_str())))], options).await
}

#[tokio::test]
async fn an_approval_is_a_form_for_the_client_and_the_call_runs_once() {
    let effects = EffectLog::new();
    let world = guarded(&effects, GatewayOptions::default()).await;
    for (number, (way, spec)) in world.client_entries().into_iter().enumerate() {
        let person = Person::new();
        let host = client(spec, Some(person.clone())).await;
        let written = call(&host, "write", json!({"path": "a"})).await.unwrap();
        assert_eq!(written.text, "written", "{way}");
        let questions = person.asked();
        assert_eq!(questions.len(), 1, "{way}: {questions:?}");
        assert!(questions[0].contains("write") && questions[0].contains(r#"{"path":"a"}"#), "{way}: {questions:?}");
        assert_eq!(effects.read().runs_of("write"), number + 1, "{way}");
        host.shutdown().await;
    }
    world.end().await;
}

#[tokio::test]
async fn without_a_user_to_ask_a_call_is_denied_in_words() {
    let effects = EffectLog::new();
    let world = guarded(&effects, GatewayOptions::default()).await;
    for (way, spec) in world.client_entries() {
        let host = client(spec, None).await;
        let denied = call(&host, "write", json!({"path": "a"})).await.unwrap();
        assert!(denied.is_error, "{way}");
        assert!(denied.text.contains("no user can be asked"), "{way}: {}", denied.text);
        host.shutdown().await;
    }
    assert_eq!(effects.read().runs_of("write"), 0);
    world.end().await;
}

/// A client that only approves, and approves everything.
struct Inbox;

impl Asker for Inbox {
    fn abilities(&self) -> Abilities {
        Abilities { confirm: true, ..Abilities::NONE }
    }

    fn confirm(&self, _question: Confirm) -> futures::future::BoxFuture<'_, Confirmed> {
        Box::pin(async { Confirmed::Yes })
    }
}

#[tokio::test]
async fn for_a_client_that_cannot_be_asked_another_one_is_asked() {
    let effects = EffectLog::new();
    let mut options = GatewayOptions::default();
    options.asker = Some(Arc::new(Inbox) as SharedAsker);
    let world = guarded(&effects, options).await;
    for (way, spec) in world.client_entries() {
        let host = client(spec, None).await;
        assert_eq!(call(&host, "write", json!({"path": "a"})).await.unwrap().text, "written", "{way}");
        host.shutdown().await;
    }
    world.end().await;
}
