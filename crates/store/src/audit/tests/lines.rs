//! Rows as lines of an export, which other programs and `verify-export` check.

use serde_json::Value;

use super::*;

/// A chain of rows, as the lines of an export.
async fn lines() -> (Vec<AuditRow>, Vec<String>) {
    let (_folder, store) = new_store().await;
    add_calls(&store, &["a", "b", "c"]).await;
    let odd = Entry { tool: Some("ä \"\\/ \u{2028}".to_owned()), ..call("x") };
    store.keep_audit(&[(-1, odd)]).await.unwrap();
    let rows = store.oldest_audit_rows(&AuditQuery { limit: 9, ..AuditQuery::default() }).await.unwrap();
    let lines = rows.iter().map(|row| serde_json::to_string(&ExportedRow::from(row)).unwrap()).collect();
    (rows, lines)
}

#[tokio::test]
async fn each_line_of_an_export_continues_the_chain_before_it() {
    let (rows, lines) = lines().await;
    let mut end = ChainEnd { seq: 0, hash: [0; 32] };
    for (row, line) in rows.iter().zip(&lines) {
        assert!(!line.contains('\n'), "{line}");
        end = end.after_line(line).unwrap_or_else(|| panic!("{line}"));
        assert_eq!((Some(end), Some(end)), (row.end(), ChainEnd::after_unchecked_line(line)), "{line}");
    }
    assert_eq!(end.seq, 4);
    let odd: Value = serde_json::from_str(&lines[3]).unwrap();
    assert_eq!((&odd["at"], &odd["at_ms"]), (&json!("1969-12-31T23:59:59.999Z"), &json!(-1)));
    assert_eq!(odd["body"]["tool"], "ä \"\\/ \u{2028}");
}

#[tokio::test]
async fn a_line_that_was_changed_moved_or_cut_does_not_continue_the_chain() {
    let (rows, lines) = lines().await;
    let first = rows[0].end().unwrap();
    let line = &lines[1];
    assert!(first.after_line(line).is_some());
    let hash = line.split("\"hash\":\"").nth(1).unwrap().trim_end_matches("\"}");
    for changed in [
        line.replace("\"b\"", "\"c\""),
        line.replace("\"at_ms\":1001", "\"at_ms\":1002"),
        line.replace("\"seq\":2", "\"seq\":3"),
        line.replace("\"seq\":2", "\"seq\":-2"),
        line.replace("\"body\":{", "\"body\":{ "),
        line.replace(hash, &"0".repeat(64)),
        line.replace(hash, &hash[2..]),
        line.replace(hash, ""),
        line[..line.len() - 1].to_owned(),
        lines[0].clone(),
        lines[2].clone(),
        String::new(),
        "null".to_owned(),
    ] {
        assert_ne!(changed, *line);
        assert_eq!(first.after_line(&changed), None, "{changed}");
    }
    // What a reader is shown is not what the hash covers, and a hash may be written in capitals.
    assert!(first.after_line(&line.replace("1970-01-01", "1999-01-01")).is_some());
    assert!(first.after_line(&line.replace(hash, &hash.to_uppercase())).is_some());
    for stranger in
        [ChainEnd { hash: [1; 32], ..first }, ChainEnd { seq: 0, ..first }, ChainEnd { seq: u64::MAX, ..first }]
    {
        assert_eq!(stranger.after_line(line), None, "{stranger}");
    }
    let last = lines[0].replace("\"seq\":1", "\"seq\":18446744073709551615");
    assert_eq!(ChainEnd::after_unchecked_line(&last), None, "no number follows");
}

#[tokio::test]
async fn a_row_whose_body_is_no_longer_one_line_of_json_is_exported_as_a_text_that_does_not_fit_its_hash() {
    let (rows, _) = lines().await;
    for body in ["{ oops", "", "{\n}", "{\"a\":\t1}"] {
        let row = AuditRow { body: body.to_owned(), ..rows[1].clone() };
        let line = serde_json::to_string(&ExportedRow::from(&row)).unwrap();
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((read["body"].as_str(), line.contains(['\n', '\t'])), (Some(body), false), "{line}");
        assert_eq!(rows[0].end().unwrap().after_line(&line), None, "{line}");
    }
}
