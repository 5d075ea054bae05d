//! The reference servers for files, memory and thinking.

use serde_json::json;
use toolrack_host::{CallErrorKind, Content, Era};
use toolrack_testkit::Home;

use crate::{
    programs::npm_server,
    worlds::{call, host_of, selectors, status, text},
};

#[tokio::test]
async fn files_are_written_read_and_listed_and_none_outside_the_allowed_folder() {
    let home = Home::new();
    home.write("work/note.txt", "first line\n");
    let folder = home.work();
    let folder = folder.to_str().unwrap();
    let host = host_of([("fs", npm_server("server-filesystem", &[folder]))]).await;
    assert_eq!(status(&host, "fs").era, Some(Era::Legacy));

    let note = format!("{folder}/note.txt");
    let read = call(&host, "fs/read_text_file", json!({"path": note})).await.unwrap();
    assert_eq!(read.content, [Content::Text { text: "first line\n".into() }]);
    assert_eq!(read.structured, Some(json!({"content": "first line\n"})));
    let made = format!("{folder}/made.txt");
    text(&host, "fs/write_file", json!({"path": made, "content": "grüße 👋"})).await;
    assert_eq!(home.read("work/made.txt"), "grüße 👋");
    let listed = text(&host, "fs/list_directory", json!({"path": folder})).await;
    assert!(listed.contains("[FILE] made.txt") && listed.contains("[FILE] note.txt"), "{listed}");

    // The tool fails, the call does not.
    let outside = call(&host, "fs/read_text_file", json!({"path": "/etc/hostname"})).await.unwrap();
    assert!(outside.is_error);
    assert!(outside.text.contains("outside allowed directories"), "{}", outside.text);

    // A misspelt name has another error than a tool that fails.
    let unknown = call(&host, "fs/read_textfile", json!({})).await.unwrap_err();
    assert_eq!(unknown.kind(), CallErrorKind::UnknownTool);
    assert!(unknown.to_string().contains("did you mean `fs/read_text_file`"), "{unknown}");
    host.shutdown().await;
}

#[tokio::test]
async fn memory_remembers_between_calls() {
    let home = Home::new();
    let mut spec = npm_server("server-memory", &[]);
    let toolrack_host::spec::Transport::Stdio(stdio) = &mut spec.transport else { panic!("not stdio") };
    let file = home.work().join("memory.jsonl");
    stdio.env.insert("MEMORY_FILE_PATH".into(), file.to_str().unwrap().to_owned());
    let host = host_of([("memory", spec)]).await;

    let ada = json!({"name": "Ada", "entityType": "person", "observations": ["wrote programs"]});
    text(&host, "memory/create_entities", json!({"entities": [ada]})).await;
    let found = call(&host, "memory/search_nodes", json!({"query": "programs"})).await.unwrap();
    assert_eq!(found.structured.unwrap()["entities"], json!([ada]));
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);
    assert!(home.read("work/memory.jsonl").contains("Ada"), "the variable of the entry has reached the server");
    host.shutdown().await;
}

#[tokio::test]
async fn thoughts_follow_each_other() {
    let host = host_of([("think", npm_server("server-sequential-thinking", &[]))]).await;
    assert_eq!(selectors(&host), ["think/sequentialthinking"]);
    for (number, thought) in [(1, "what is asked?"), (2, "answer that")] {
        let arguments = json!({
            "thought": thought, "thoughtNumber": number, "totalThoughts": 2, "nextThoughtNeeded": number < 2,
        });
        let outcome = call(&host, "think/sequentialthinking", arguments).await.unwrap();
        let structured = outcome.structured.unwrap();
        assert_eq!(structured["thoughtHistoryLength"], number);
        assert_eq!(structured["nextThoughtNeeded"], number < 2);
    }
    host.shutdown().await;
}
