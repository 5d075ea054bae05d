//! Toolrack's own host as the client, in both eras, over HTTP and stdio: host, gateway, host, server.

use serde_json::json;
use toolrack_host::Content;

use crate::world::{World, call, client};

#[tokio::test]
async fn tools_are_listed_and_called_over_every_way_in_both_eras() {
    for era in ["legacy", "modern"] {
        let world = World::new(&format!("--era {era}")).await;
        for (way, spec) in world.ways() {
            let host = client(spec, None).await;
            let names: Vec<_> = host.catalog().tools().map(|tool| tool.tool().name.clone()).collect();
            assert!(names.contains(&"mcp__fake__echo".to_owned()), "{way}: {names:?} {:?}", host.status());
            assert_eq!(names.len(), world.host.catalog().tools().len(), "{way}");
            let echo = call(&host, "echo", json!({"text": "grüße"})).await.unwrap();
            assert_eq!(echo.content, [Content::Text { text: "grüße".into() }], "{way}");
            let failed = call(&host, "fail", json!({"message": "no"})).await.unwrap();
            assert!(failed.is_error, "{way}");
            let structured = call(&host, "structured", json!({"label": "x"})).await.unwrap();
            assert!(structured.structured.is_some(), "{way}");
            assert!(structured.warnings.is_empty(), "{way}: {:?}", structured.warnings);
            host.shutdown().await;
        }
        world.end().await;
    }
}
