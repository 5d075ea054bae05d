//! Compares the rows that a query finds with those that the same query, written in Rust, finds.

use super::*;

fn word(words: &'static [&'static str]) -> impl Strategy<Value = Option<String>> {
    prop::option::of(prop::sample::select(words).prop_map(str::to_owned))
}

fn entry() -> impl Strategy<Value = (i64, Entry)> {
    let decisions = &["allowed", "remembered", "confirmed", "edited", "denied", "declined", "unasked", "unanswered"];
    let kind = prop::sample::select(vec!["call", "call", "connected", "answer"]);
    let names = (word(&["fs", "git", "FS"]), word(&["read", "write", "r%"]), word(&["a", "b"]), word(decisions));
    (1_000_i64..1_010, kind, names).prop_map(|(at, kind, (server, tool, agent, decision))| {
        (at, Entry { server, tool, agent, decision, ..Entry::of_kind(kind) })
    })
}

fn query() -> impl Strategy<Value = AuditQuery> {
    let names = (word(&["fs", "git", "none"]), word(&["read", "r%", "r"]), word(&["a", "b"]));
    let places = (prop::option::of(0_u64..25), 0_u64..25, 0_usize..12);
    (names, prop::option::of(998_i64..1_012), any::<bool>(), places).prop_map(
        |((server, tool, agent), since, denied, (before, after, limit))| AuditQuery {
            server,
            tool,
            agent,
            since,
            denied,
            before,
            after,
            limit,
        },
    )
}

/// Whether the row matches `query`.
fn is_asked_for(seq: u64, (at, entry): &(i64, Entry), query: &AuditQuery) -> bool {
    let same = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
    let ran = ["allowed", "remembered", "confirmed", "edited"];
    let did_not_run = entry.decision.as_deref().is_some_and(|decision| !ran.contains(&decision));
    seq > query.after
        && query.before.is_none_or(|before| seq < before)
        && query.since.is_none_or(|since| *at >= since)
        && same(&query.server, &entry.server)
        && same(&query.tool, &entry.tool)
        && same(&query.agent, &entry.agent)
        && (!query.denied || (entry.kind == "call" && did_not_run))
}

async fn is_as_asked(entries: Vec<(i64, Entry)>, queries: Vec<AuditQuery>) {
    let (_folder, store) = new_store().await;
    for entry in &entries {
        store.keep_audit(std::slice::from_ref(entry)).await.unwrap();
    }
    for query in queries {
        let all: Vec<u64> = (1_u64..)
            .zip(&entries)
            .filter(|(seq, entry)| is_asked_for(*seq, entry, &query))
            .map(|(seq, _)| seq)
            .collect();
        let newest = store.audit(&query).await.unwrap();
        let oldest = store.oldest_audit_rows(&query).await.unwrap();
        let seqs = |rows: &[AuditRow]| rows.iter().map(|row| row.seq).collect::<Vec<_>>();
        assert_eq!(seqs(&newest), all[all.len().saturating_sub(query.limit)..], "the newest: {query:?}");
        assert_eq!(seqs(&oldest), all[..query.limit.min(all.len())], "the oldest: {query:?}");
        for row in newest {
            assert_eq!((row.at, &row.entry), {
                let (at, entry) = &entries[usize::try_from(row.seq).unwrap() - 1];
                (*at, entry)
            });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_query_finds_exactly_the_matching_rows(
        entries in prop::collection::vec(entry(), 0..25),
        queries in prop::collection::vec(query(), 1..20),
    ) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(is_as_asked(entries, queries));
    }

    #[test]
    fn a_printed_chain_end_parses_to_the_same_end(seq in any::<u64>(), hash in any::<[u8; 32]>()) {
        let end = ChainEnd { seq, hash };
        prop_assert_eq!(end.to_string().parse::<ChainEnd>(), Ok(end));
        prop_assert_eq!(end.to_string().to_uppercase().parse::<ChainEnd>(), Ok(end));
    }
}

#[test]
fn a_text_that_is_nearly_the_end_of_a_chain_is_refused() {
    let digits = "ab".repeat(32);
    assert!(format!("7:{digits}").parse::<ChainEnd>().is_ok());
    for text in [
        String::new(),
        digits.clone(),
        format!(":{digits}"),
        format!("7{digits}"),
        format!("7:{digits}0"),
        format!("7:{}", &digits[1..]),
        format!("7:{}", &digits[2..]),
        format!("-7:{digits}"),
        format!("7: {digits}"),
        format!("7:0x{}", &digits[2..]),
        format!("18446744073709551616:{digits}"),
        format!("7:{digits}\n"),
    ] {
        assert_eq!(text.parse::<ChainEnd>(), Err(BadChainEnd), "{text:?}");
    }
}
