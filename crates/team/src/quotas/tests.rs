//! Tests of what the quotas of a tenant allow.

use chrono::TimeDelta;
use tokio::time::{advance, timeout};
use tokio_util::sync::CancellationToken;
use toolrack_host::{Quota, Way, principal::Kind};
use toolrack_store::{QuotaUse, Store};

use super::*;

fn quotas(limits: &str) -> TenantQuotas {
    TenantQuotas::at("acme", toml_edit::de::from_str(limits).unwrap(), "2100-01-01T10:30:00Z".parse().unwrap())
}

fn caller(subject: &str) -> Caller {
    let principal = Principal::new(Kind::Person, "acme", "https://login.example", subject).unwrap();
    Caller::of(principal, Way::Daemon)
}

/// How many of `calls` calls are allowed, each of which ends before the next one begins.
fn counted(quotas: &TenantQuotas, subject: &str, calls: usize) -> usize {
    (0..calls).filter(|_| quotas.begin(&caller(subject), Work::Call).is_ok()).count()
}

#[tokio::test(start_paused = true)]
async fn each_member_has_calls_of_their_own_in_a_minute() {
    let quotas = quotas("each_member = { calls_per_minute = 6 }");
    assert_eq!((counted(&quotas, "ann", 10), counted(&quotas, "bob", 10)), (6, 6));
    let over = quotas.begin(&caller("ann"), Work::Call).unwrap_err();
    assert_eq!(over.retry_after, Duration::from_secs(10));
    let expected = "a member of `acme` may make 6 calls in a minute (`limits.each_member.calls_per_minute` of the \
                    team file), and this quota is used up: it is free again in 10 s";
    assert_eq!(over.to_string(), expected);
    advance(Duration::from_secs(10)).await;
    assert_eq!(counted(&quotas, "ann", 2), 1);
    advance(Duration::from_hours(1)).await;
    assert_eq!(counted(&quotas, "ann", 10), 6, "unused calls of past minutes do not add up");
}

#[tokio::test(start_paused = true)]
async fn all_members_together_have_a_bound_and_a_refused_call_does_not_count() {
    let quotas = quotas("calls_per_minute = 5\neach_member = { calls_per_minute = 4 }");
    assert_eq!((counted(&quotas, "ann", 9), counted(&quotas, "bob", 9)), (4, 1));
    assert!(quotas.begin(&caller("bob"), Work::Call).unwrap_err().words.starts_with("all members together of `acme`"));
    // Only the call of Bob that was allowed counted for his own quota, and not the eight that were refused.
    advance(Duration::from_mins(1)).await;
    assert_eq!(counted(&quotas, "bob", 9), 4);
}

#[tokio::test(start_paused = true)]
async fn a_call_holds_its_place_until_it_ends() {
    let quotas = quotas("calls_at_once = 3\neach_member = { calls_at_once = 2 }");
    let ann: Vec<_> = (0..2).map(|_| quotas.begin(&caller("ann"), Work::Call).unwrap()).collect();
    assert!(quotas.begin(&caller("ann"), Work::Call).unwrap_err().words.contains("run 2 calls at once"));
    let _bob = quotas.begin(&caller("bob"), Work::Call).unwrap();
    assert!(quotas.begin(&caller("cid"), Work::Call).unwrap_err().words.contains("run 3 calls at once"));
    drop(ann);
    assert_eq!(counted(&quotas, "cid", 5), 5);
}

#[tokio::test(start_paused = true)]
async fn members_who_use_nothing_any_more_are_forgotten() {
    let quotas = quotas("each_member = { calls_per_minute = 1 }");
    let _held = quotas.begin(&caller("held"), Work::Call).unwrap();
    for number in 0..MAX_MEMBERS {
        assert_eq!(counted(&quotas, &number.to_string(), 1), 1);
        advance(Duration::from_millis(100)).await;
    }
    assert!(quotas.0.counts.lock().by_member.len() <= MAX_MEMBERS);
    assert!(quotas.begin(&caller("held"), Work::Call).is_ok(), "the minute of this call is over");
    assert_eq!(counted(&quotas, &(MAX_MEMBERS - 1).to_string(), 1), 0, "the minute of the last call is not over");
}

/// The refusal of work that a quota does not allow `subject` to begin.
fn refused(quotas: &TenantQuotas, subject: &str, work: Work) -> OverQuota {
    quotas.begin(&caller(subject), work).unwrap_err()
}

/// Has `subject` receive a result of this size.
fn receive(quotas: &TenantQuotas, subject: &str, bytes: u64) {
    quotas.begin(&caller(subject), Work::Read).unwrap().used(Quantity::ResultBytes, bytes);
}

#[tokio::test(start_paused = true)]
async fn bytes_of_results_are_counted_at_the_end_and_refuse_the_next_call() {
    let quotas = quotas("result_bytes_per_day = 1000\neach_member = { result_bytes_per_hour = 100 }");
    receive(&quotas, "ann", 99);
    // While one byte is left, work may begin, however large its result turns out to be.
    receive(&quotas, "ann", 500);
    for work in [Work::Call, Work::Read] {
        let over = refused(&quotas, "ann", work);
        assert_eq!((over.used, over.quota.limit(), over.retry_after), (599, 100, Duration::from_mins(30)));
        assert_eq!(over.setting, "limits.each_member.result_bytes_per_hour");
    }
    assert!(quotas.begin(&caller("ann"), Work::Model).is_ok(), "a model brings no result of a tool");
    receive(&quotas, "bob", 90);
    receive(&quotas, "cid", 311);
    let over = refused(&quotas, "dan", Work::Read);
    assert_eq!((over.used, over.setting.as_str()), (1000, "limits.result_bytes_per_day"));
    advance(Duration::from_mins(30)).await;
    assert_eq!(
        refused(&quotas, "ann", Work::Call).setting,
        "limits.result_bytes_per_day",
        "the hour is over, the day is not"
    );
    advance(Duration::from_hours(13)).await;
    receive(&quotas, "ann", 1);
}

#[tokio::test(start_paused = true)]
async fn the_quota_that_keeps_a_caller_waiting_for_longest_is_named() {
    let quotas = quotas("calls_per_day = 2\neach_member = { calls_per_minute = 2 }");
    assert_eq!(counted(&quotas, "ann", 3), 2);
    let over = refused(&quotas, "ann", Work::Call);
    assert_eq!((over.setting.as_str(), over.retry_after), ("limits.calls_per_day", Duration::from_mins(13 * 60 + 30)));
    let words = over.to_string();
    assert!(words.ends_with("and this quota is used up: it is free again in 14 h"), "{words}");
}

#[tokio::test(start_paused = true)]
async fn tokens_and_money_stop_the_next_request_to_a_model_and_no_call() {
    let quotas = quotas("each_member = { tokens_per_day = 100, dollars_per_month = 0.5 }");
    let request = quotas.begin(&caller("ann"), Work::Model).unwrap();
    request.used(Quantity::Tokens, 99);
    request.used(Quantity::Dollars, toolrack_host::quota::billionths(0.5));
    drop(request);
    let over = refused(&quotas, "ann", Work::Model);
    assert!(over.words.contains("spend $0.5 on models in a month"), "{}", over.words);
    assert_eq!(counted(&quotas, "ann", 1), 1);
    assert!(quotas.begin(&caller("bob"), Work::Model).is_ok());
}

/// A profile `review` with these quotas.
fn review(limits: &[(&str, f64)]) -> BTreeMap<Arc<str>, Arc<ToolProfile>> {
    let quota = |(name, most): &(&str, f64)| Quota::read(name, *most).unwrap();
    let quotas = limits.iter().map(quota).fold(QuotaSet::default(), QuotaSet::with);
    BTreeMap::from([("review".into(), Arc::new(ToolProfile::default().with_quotas(quotas)))])
}

#[tokio::test(start_paused = true)]
async fn the_clients_of_a_profile_share_its_quotas_and_a_changed_quota_keeps_the_use() {
    let quotas = quotas("");
    quotas.set_profiles(&review(&[("calls_per_hour", 2.0), ("calls_at_once", 1.0)]));
    let begin = |subject| quotas.begin(&caller(subject).with_profile("review"), Work::Call);
    let held = begin("ann").unwrap();
    let over = begin("bob").unwrap_err();
    assert!(
        over.words.starts_with("all clients together of the profile `review` may run 1 call at once"),
        "{}",
        over.words
    );
    drop(held);
    drop(begin("bob").unwrap());
    assert_eq!(begin("cid").unwrap_err().setting, "profiles.limits.calls_per_hour");
    assert_eq!(counted(&quotas, "cid", 3), 3, "calls outside of the profile do not count for it");
    quotas.set_profiles(&review(&[("calls_per_hour", 3.0)]));
    assert!(begin("cid").is_ok());
    assert_eq!(begin("cid").unwrap_err().used, 3);
    quotas.set_profiles(&BTreeMap::new());
    assert!(begin("cid").is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_member_sees_their_own_use_and_that_of_all_together() {
    let quotas = quotas("calls_per_hour = 10\neach_member = { calls_per_minute = 2 }");
    assert_eq!((counted(&quotas, "ann", 2), counted(&quotas, "bob", 1)), (2, 1));
    let short = |usage: Vec<Usage>| -> Vec<_> {
        let name = |usage: &Usage| match &usage.holder {
            Holder::Member { name, .. } => name.clone().unwrap(),
            holder => format!("{holder:?}"),
        };
        usage.iter().map(|usage| (name(usage), usage.quota.name(), usage.used, usage.free_at.is_some())).collect()
    };
    let (ann, bob) = (caller("ann"), caller("bob"));
    let all = ("Tenant".to_owned(), "calls_per_hour", 3, false);
    let of_ann = ("ann".to_owned(), "calls_per_minute", 2, true);
    let of_bob = ("bob".to_owned(), "calls_per_minute", 1, false);
    assert_eq!(short(quotas.usage_of(ann.principal())), [of_ann.clone(), all.clone()]);
    assert_eq!(short(quotas.usage_of(bob.principal())), [of_bob.clone(), all.clone()]);
    assert_eq!(short(quotas.usage_of(caller("eve").principal()))[0], ("eve".to_owned(), "calls_per_minute", 0, false));
    assert_eq!(short(quotas.usage()), [all, of_ann, of_bob]);
    let own = &quotas.usage_of(ann.principal())[0];
    let now: DateTime<Utc> = "2100-01-01T10:30:00Z".parse().unwrap();
    assert_eq!((own.free_at, own.renews_at), (Some(now + TimeDelta::seconds(30)), Some(now + TimeDelta::seconds(60))));
}

/// Quotas that count on from what `store` has.
async fn resumed(limits: &str, store: &Store) -> TenantQuotas {
    let quotas = quotas(limits);
    quotas.resume(store).await.unwrap();
    quotas
}

#[tokio::test]
async fn use_survives_a_restart_except_that_of_calls_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("toolrack.db")).await.unwrap();
    let limits =
        "calls_per_month = 3\neach_member = { calls_at_once = 1, calls_per_minute = 3, result_bytes_per_hour = 100 }";
    let in_profile = review(&[("calls_per_day", 1.0)]);
    let first = resumed(limits, &store).await;
    first.set_profiles(&in_profile);
    assert_eq!(counted(&first, "ann", 2), 2);
    receive(&first, "ann", 100);
    drop(first.begin(&caller("bob").with_profile("review"), Work::Call).unwrap());
    first.save(&store).await.unwrap();

    let second = resumed(limits, &store).await;
    second.set_profiles(&in_profile);
    // A member's use that is only in the store so far is shown, too.
    let members = second.usage().into_iter().filter(|usage| matches!(usage.holder, Holder::Member { .. }));
    let members: Vec<_> = members.map(|usage| (usage.quota.name(), usage.used)).collect();
    assert!(members.contains(&("result_bytes_per_hour", 100)), "{members:?}");
    let of_ann: Vec<_> = second.usage_of(caller("ann").principal()).iter().map(|usage| usage.used).collect();
    assert_eq!(of_ann[..3], [0, 2, 100]);
    assert_eq!(refused(&second, "ann", Work::Read).setting, "limits.each_member.result_bytes_per_hour");
    let over = refused(&second, "bob", Work::Call);
    assert_eq!((over.setting.as_str(), over.used), ("limits.calls_per_month", 3));
    let over = second.begin(&caller("bob").with_profile("review"), Work::Call).unwrap_err();
    assert_eq!(over.setting, "limits.calls_per_month", "the month is longer than the day");
    second.set_profiles(&BTreeMap::new());
    second.set_profiles(&in_profile);
    let of_review = |usage: &Usage| matches!(usage.holder, Holder::Profile { .. });
    assert_eq!(second.usage().into_iter().find(of_review).unwrap().used, 1, "a profile that comes back has its count");
    store.close().await;
}

#[tokio::test]
async fn a_killed_process_has_written_all_but_a_small_share_of_each_quota() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("toolrack.db")).await.unwrap();
    let quotas = resumed("calls_per_day = 1000", &store).await;
    // The regular writes are now and in ten seconds. What counts as much use must be written before the second one.
    let writes = async {
        for (calls, used) in [(1, 1.0), (6, 7.0)] {
            assert_eq!(counted(&quotas, "ann", calls), calls);
            while store.quota_uses().await.unwrap().first().is_none_or(|row| row.used < used) {
                tokio::task::yield_now().await;
            }
        }
    };
    tokio::select! {
        () = quotas.clone().save_until(store.clone(), CancellationToken::new()) => {}
        written = timeout(Duration::from_secs(8), writes) => written.expect("the use is written before the regular write"),
    }
    store.close().await;
}

#[tokio::test]
async fn unused_quotas_are_not_written_and_the_rest_is_written_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("toolrack.db")).await.unwrap();
    let quotas = resumed("calls_per_day = 9\neach_member = { calls_at_once = 1 }", &store).await;
    quotas.save(&store).await.unwrap();
    assert_eq!(store.quota_uses().await.unwrap(), []);
    let ending = CancellationToken::new();
    let keeping = quotas.clone().save_until(store.clone(), ending.clone());
    assert_eq!(counted(&quotas, "ann", 4), 4);
    ending.cancel();
    keeping.await;
    let rows: Vec<_> = store.quota_uses().await.unwrap();
    let rows: Vec<_> = rows.iter().map(|row| (row.holder.as_str(), row.quota.as_str(), row.limit, row.used)).collect();
    assert_eq!(rows, [("tenant", "calls_per_day", 9, 4.0)]);
    store.close().await;
}

#[test]
fn a_stored_time_in_the_future_does_not_keep_a_quota_used_up() {
    let now: DateTime<Utc> = "2100-01-01T10:30:00Z".parse().unwrap();
    let limits: Limits = toml_edit::de::from_str("calls_per_minute = 6\ncalls_at_once = 6").unwrap();
    let used = |quota: &str, used: f64, at| QuotaUse {
        holder: "tenant".to_owned(),
        name: None,
        quota: quota.to_owned(),
        limit: 6,
        used,
        at,
    };
    let year = TimeDelta::days(365);
    let stored = [used("calls_per_minute", 6.0, now + year), used("calls_at_once", 6.0, now), used("gone", 1.0, now)];
    let mut meters = Meters::new(&limits.all, now).with_stored(Some(&stored), now);
    let shown = |meters: &Meters| {
        let mut shown: Vec<_> = meters.meters.iter().map(|meter| (meter.quota().name(), meter.used())).collect();
        shown.sort_unstable();
        shown
    };
    assert_eq!(shown(&meters), [("calls_at_once", 0), ("calls_per_minute", 6)], "no call survives a restart");
    meters.advance(now + TimeDelta::minutes(1));
    assert_eq!(shown(&meters), [("calls_at_once", 0), ("calls_per_minute", 0)]);
}
