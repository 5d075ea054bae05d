use proptest::prelude::*;
use serde_json::json;

use super::*;

/// What an edit of an entry that was shown as `view` writes down, or the field that has no value.
fn revealed(values: &Json, view: &Json, sent: &Json) -> Result<Json, String> {
    let mut entry = sent.clone();
    match reveal("demo", &mut entry, view, values) {
        Ok(()) => Ok(entry),
        Err(EditError::Invalid { name, problems }) => {
            assert_eq!((&*name, problems.len()), ("demo", 1));
            let said = problems[0].to_string();
            assert!(said.contains("give the value, or a placeholder") && !said.contains("canary"), "{said}");
            Err(problems[0].field.clone().unwrap())
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_hidden_value_stays_what_it_was_where_only_its_neighbours_change() {
    let values = json!({ "command": "x", "env": { "A": "canary-1", "B": "$B" }, "url": "https://u:canary-2@h/" });
    let view = json!({ "command": "x", "env": { "A": "***", "B": "${B}" }, "url": "https://u:***@h/" });
    for (change, expected) in [
        (json!({}), json!({})),
        (json!({ "command": "y" }), json!({ "command": "y" })),
        (json!({ "env": { "A": "***" } }), json!({ "env": { "A": "canary-1" } })),
        // Shown in one form, and written in another: as it was, where it was not touched.
        (json!({ "env": { "A": "new", "B": "${B}" } }), json!({ "env": { "A": "new", "B": "$B" } })),
        (json!({ "env": { "A": "***", "B": "${C}" } }), json!({ "env": { "A": "canary-1", "B": "${C}" } })),
        (json!({ "args": ["a"] }), json!({ "args": ["a"] })),
    ] {
        let with = |base: &Json, change: &Json| {
            let mut all = base.as_object().unwrap().clone();
            all.extend(change.as_object().unwrap().clone());
            Json::Object(all)
        };
        assert_eq!(revealed(&values, &view, &with(&view, &change)), Ok(with(&values, &expected)), "{change}");
    }
}

#[test]
fn a_hidden_text_that_stands_for_no_known_value_is_an_error_that_names_it() {
    let values = json!({ "env": { "A": "canary" }, "url": "https://u:canary@h/" });
    let view = json!({ "env": { "A": "***" }, "url": "https://u:***@h/" });
    for (sent, field) in [
        (json!({ "env": { "B": "***" } }), "env.B"),
        (json!({ "env": { "A": "Bearer ***" } }), "env.A"),
        (json!({ "env": "***" }), "env"),
        (json!({ "headers": { "A": "***" } }), "headers.A"),
        // The same password is not that of another host.
        (json!({ "url": "https://u:***@other/" }), "url"),
        (json!({ "args": ["***"] }), "args[0]"),
        (json!({ "deep": [{ "er": ["a", "x***"] }] }), "deep[0].er[1]"),
    ] {
        assert_eq!(revealed(&values, &view, &sent), Err(field.to_owned()), "{sent}");
    }
    assert_eq!(revealed(&Json::Null, &Json::Null, &json!({ "a": "***" })), Err("a".to_owned()), "a new entry has none");
}

#[test]
fn hidden_arguments_are_told_apart_by_the_option_before_them_and_then_by_their_order() {
    let of = |args: &[&str]| json!({ "args": args });
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
        let revealed = revealed(&of(values), &of(view), &of(sent)).ok();
        assert_eq!(revealed, expected.map(of), "{values:?} {sent:?}");
    }
}

#[test]
fn a_new_entry_with_a_hidden_text_is_refused_wherever_it_stands() {
    for (entry, field) in [
        (json!({ "env": { "A": "***" } }), "env.A"),
        (json!({ "args": ["a", "--x=***"] }), "args[1]"),
        (json!({ "oauth": { "idp": { "client_secret": "***" } } }), "oauth.idp.client_secret"),
    ] {
        let Err(EditError::Invalid { problems, .. }) = refuse("demo", &entry) else { panic!("{entry}") };
        assert_eq!(problems[0].field.as_deref(), Some(field));
        assert!(problems[0].message.starts_with(&format!("`{field}` is hidden")), "{}", problems[0].message);
    }
    for entry in [json!({ "env": { "A": "**" } }), json!({ "***": 1 }), json!({ "a": [null, 1, true, "x"] }), json!(7)]
    {
        assert!(refuse("demo", &entry).is_ok(), "{entry}");
    }
}

/// An entry of any shape, and how it is shown.
fn shown() -> impl Strategy<Value = (Json, Json)> {
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
    fn what_was_shown_and_comes_back_with_one_more_field_is_what_it_was((values, view) in shown()) {
        let with = |base: &Json| {
            let mut all = base.as_object().unwrap().clone();
            all.insert("ZZ".into(), json!("new"));
            Json::Object(all)
        };
        prop_assert_eq!(revealed(&values, &view, &view), Ok(values.clone()));
        prop_assert_eq!(revealed(&values, &view, &with(&view)), Ok(with(&values)));
    }
}
