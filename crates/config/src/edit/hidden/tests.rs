use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Returns the entry that an edit writes when the user saw `view` and sends `sent`, or the field without a value.
fn revealed(values: &Json, view: &Json, sent: &Json) -> Result<Json, String> {
    let mut entry = sent.clone();
    match reveal("demo", &mut entry, view, values) {
        Ok(()) => Ok(entry),
        Err(EditError::Invalid { name, problems }) => {
            assert_eq!((&*name, problems.len()), ("demo", 1));
            let message = problems[0].to_string();
            assert!(message.contains("give the value, or a placeholder") && !message.contains("canary"), "{message}");
            Err(problems[0].field.clone().unwrap())
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_hidden_value_survives_changes_of_its_neighbours() {
    let values = json!({ "command": "x", "env": { "A": "canary-1", "B": "$B" }, "url": "https://u:canary-2@h/" });
    let view = json!({ "command": "x", "env": { "A": "***", "B": "${B}" }, "url": "https://u:***@h/" });
    for (change, expected) in [
        (json!({}), json!({})),
        (json!({ "command": "y" }), json!({ "command": "y" })),
        (json!({ "env": { "A": "***" } }), json!({ "env": { "A": "canary-1" } })),
        // `B` is shown in another form than it is written; an unchanged field stays as it is written.
        (json!({ "env": { "A": "new", "B": "${B}" } }), json!({ "env": { "A": "new", "B": "$B" } })),
        (json!({ "env": { "A": "***", "B": "${C}" } }), json!({ "env": { "A": "canary-1", "B": "${C}" } })),
        (json!({ "args": ["a"] }), json!({ "args": ["a"] })),
    ] {
        let changed = |base: &Json, change: &Json| {
            let mut all = base.as_object().unwrap().clone();
            all.extend(change.as_object().unwrap().clone());
            Json::Object(all)
        };
        assert_eq!(revealed(&values, &view, &changed(&view, &change)), Ok(changed(&values, &expected)), "{change}");
    }
}

#[test]
fn a_hidden_text_without_a_known_value_is_an_error_that_names_its_field() {
    let values = json!({ "env": { "A": "canary" }, "url": "https://u:canary@h/" });
    let view = json!({ "env": { "A": "***" }, "url": "https://u:***@h/" });
    for (sent, field) in [
        (json!({ "env": { "B": "***" } }), "env.B"),
        (json!({ "env": { "A": "Bearer ***" } }), "env.A"),
        (json!({ "env": "***" }), "env"),
        (json!({ "headers": { "A": "***" } }), "headers.A"),
        // A password of one host is not used for another.
        (json!({ "url": "https://u:***@other/" }), "url"),
        (json!({ "args": ["***"] }), "args[0]"),
        (json!({ "deep": [{ "er": ["a", "x***"] }] }), "deep[0].er[1]"),
    ] {
        assert_eq!(revealed(&values, &view, &sent), Err(field.to_owned()), "{sent}");
    }
    assert_eq!(revealed(&Json::Null, &Json::Null, &json!({ "a": "***" })), Err("a".to_owned()), "a new entry has none");
}

#[test]
fn hidden_arguments_are_matched_by_option_and_then_by_order() {
    let entry = |args: &[&str]| json!({ "args": args });
    for (values, view, sent, expected) in [
        (
            &["--a", "c1", "-v"][..],
            &["--a", "***", "-v"][..],
            &["-v", "--a", "***"][..],
            Some(&["-v", "--a", "c1"][..]),
        ),
        (&["--a", "c1"], &["--a", "***"], &["--b", "***"], Some(&["--b", "c1"])),
        (
            &["--a", "c1", "--b", "c2"],
            &["--a", "***", "--b", "***"],
            &["--b", "***", "--a", "***"],
            Some(&["--b", "c2", "--a", "c1"]),
        ),
        (&["--a", "c1", "--b", "c2"], &["--a", "***", "--b", "***"], &["--b", "***"], Some(&["--b", "c2"])),
        (&["--a", "c1", "--b", "c2"], &["--a", "***", "--b", "***"], &["--c", "***"], None),
        (&["c1", "c2"], &["***", "***"], &["***", "***", "x"], Some(&["c1", "c2", "x"])),
        (&["c1", "c2"], &["***", "***"], &["x", "***", "***"], Some(&["x", "c1", "c2"])),
        (&["c1", "c2"], &["***", "***"], &["***"], None),
        (&["c1", "c1"], &["***", "***"], &["***"], Some(&["c1"])),
        (&["c1"], &["***"], &["***", "***"], None),
        (
            &["--a", "c1", "--a", "c2"],
            &["--a", "***", "--a", "***"],
            &["-v", "--a", "***", "--a", "***"],
            Some(&["-v", "--a", "c1", "--a", "c2"]),
        ),
        (&["--a", "c1", "--a", "c2"], &["--a", "***", "--a", "***"], &["--a", "***"], None),
    ] {
        let revealed = revealed(&entry(values), &entry(view), &entry(sent)).ok();
        assert_eq!(revealed, expected.map(entry), "{values:?} {sent:?}");
    }
}

#[test]
fn a_new_entry_with_a_hidden_text_is_refused_wherever_it_stands() {
    for (entry, field) in [
        (json!({ "env": { "A": "***" } }), "env.A"),
        (json!({ "args": ["a", "--x=***"] }), "args[1]"),
        (json!({ "oauth": { "idp": { "client_secret": "***" } } }), "oauth.idp.client_secret"),
    ] {
        let Err(EditError::Invalid { problems, .. }) = refuse_hidden("demo", &entry) else { panic!("{entry}") };
        assert_eq!(problems[0].field.as_deref(), Some(field));
        assert!(problems[0].message.starts_with(&format!("`{field}` is hidden")), "{}", problems[0].message);
    }
    for entry in [json!({ "env": { "A": "**" } }), json!({ "***": 1 }), json!({ "a": [null, 1, true, "x"] }), json!(7)]
    {
        assert!(refuse_hidden("demo", &entry).is_ok(), "{entry}");
    }
}

/// An entry of any shape, and its view.
fn entry_and_view() -> impl Strategy<Value = (Json, Json)> {
    let leaf = prop_oneof![
        "[a-z]{1,6}".prop_map(|text| (json!(text), json!(text))),
        "[a-z]{1,6}".prop_map(|text| (json!(format!("{text}${{X}}")), json!("***${X}"))),
        "[a-z]{1,6}".prop_map(|text| (json!(format!("secret-{text}")), json!("***"))),
        any::<u8>().prop_map(|number| (json!(number), json!(number))),
    ];
    let node = leaf.prop_recursive(3, 24, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..4).prop_map(|items| {
            let (values, views): (Vec<_>, Vec<_>) = items.into_iter().unzip();
            (Json::Array(values), Json::Array(views))
        });
        let map = prop::collection::btree_map("[a-z]{1,4}", inner, 0..4).prop_map(|members| {
            let values = members.iter().map(|(name, (value, _))| (name.clone(), value.clone())).collect();
            let views = members.into_iter().map(|(name, (_, view))| (name, view)).collect();
            (Json::Object(values), Json::Object(views))
        });
        prop_oneof![list, map]
    });
    prop::collection::btree_map("[a-z]{1,4}", node, 0..5).prop_map(|members| {
        let values = members.iter().map(|(name, (value, _))| (name.clone(), value.clone())).collect();
        let views = members.into_iter().map(|(name, (_, view))| (name, view)).collect();
        (Json::Object(values), Json::Object(views))
    })
}

proptest! {
    #[test]
    fn a_shown_entry_sent_back_with_one_more_field_keeps_its_values((values, view) in entry_and_view()) {
        let with = |base: &Json| {
            let mut all = base.as_object().unwrap().clone();
            all.insert("ZZ".into(), json!("new"));
            Json::Object(all)
        };
        prop_assert_eq!(revealed(&values, &view, &view), Ok(values.clone()));
        prop_assert_eq!(revealed(&values, &view, &with(&view)), Ok(with(&values)));
    }
}
