use super::*;

fn attempts(made: u32, change: impl FnOnce(&mut Bounds)) -> Attempts {
    let mut bounds = Bounds::default();
    change(&mut bounds);
    let url: Url = "http://127.0.0.1:9/v1".parse().unwrap();
    let transport = Transport {
        client: client(bounds.connect, &url).unwrap(),
        model: "p/m".into(),
        headers: HeaderMap::new(),
        key: None,
        bounds,
        key_advice: String::new(),
    };
    Attempts { count: made, ..Attempts::new(Arc::new(transport), url, Bytes::new(), failure::classify_response) }
}

fn busy(retry_after: Option<u64>) -> FailedAttempt {
    let retry_after = retry_after.map(Duration::from_secs);
    FailedAttempt { kind: ModelErrorKind::RateLimited { retry_after, message: String::new() }, may_retry: true }
}

#[tokio::test]
async fn the_pauses_between_tries_double_up_to_a_bound() {
    for (made, most) in
        [(1, 500), (2, 1_000), (3, 2_000), (4, 4_000), (5, 8_000), (6, 8_000), (60, 8_000), (u32::MAX - 1, 8_000)]
    {
        let attempts = attempts(made, |bounds| bounds.retries = u32::MAX);
        for _ in 0..20 {
            let pause = attempts.pause_after(&busy(None)).unwrap();
            let most = Duration::from_millis(most);
            assert!(pause <= most && pause >= most.mul_f64(0.75), "after {made}: {pause:?}");
        }
    }
}

#[tokio::test]
async fn there_are_as_many_tries_as_the_settings_say() {
    for retries in [0, 1, 4] {
        let pauses = |made| attempts(made, |bounds| bounds.retries = retries).pause_after(&busy(None)).is_some();
        assert!((1..=retries).all(pauses), "{retries}");
        assert!(!pauses(retries + 1), "{retries}");
    }
    let never = FailedAttempt::from(ModelErrorKind::Cut { why: String::new() });
    assert_eq!(attempts(1, |_| {}).pause_after(&never), None);
}

#[tokio::test]
async fn the_wait_that_a_provider_asks_for_is_waited_for_within_both_bounds() {
    for (asked, waited) in [(0, Some(0)), (1, Some(1)), (60, Some(60)), (61, None), (u64::MAX, None)] {
        let pause = attempts(1, |_| {}).pause_after(&busy(Some(asked)));
        assert_eq!(pause, waited.map(Duration::from_secs), "{asked}");
    }
    // The end of all tries comes first.
    let short = attempts(1, |bounds| bounds.total = Duration::from_secs(5));
    assert_eq!(short.pause_after(&busy(Some(10))), None);
    assert!(short.pause_after(&busy(Some(1))).is_some());
}

#[tokio::test]
async fn a_bound_of_any_length_is_a_bound() {
    let endless = attempts(1, |bounds| {
        (bounds.total, bounds.first_token, bounds.longest_pause) = (Duration::MAX, Duration::MAX, Duration::MAX);
    });
    assert!(endless.pause_after(&busy(Some(60))).is_some());
    assert_eq!(endless.pause_after(&busy(Some(u64::MAX))), None, "longer than anything may take");
}

/// Finds the address of no host, so that no connection is ever made.
struct NeverResolves;

impl reqwest::dns::Resolve for NeverResolves {
    fn resolve(&self, _: reqwest::dns::Name) -> reqwest::dns::Resolving {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_connection_that_is_not_there_in_time_is_tried_again_as_often_as_the_settings_say() {
    let connect = Duration::from_millis(1);
    let mut attempts = attempts(0, |bounds| {
        (bounds.connect, bounds.first_pause, bounds.retries) = (connect, Duration::ZERO, 2);
    });
    attempts.url = "http://nowhere.test/v1".parse().unwrap();
    let builder = Client::builder().dns_resolver(Arc::new(NeverResolves)).no_proxy();
    Arc::get_mut(&mut attempts.transport).unwrap().client = builder.connect_timeout(connect).build().unwrap();
    let failed = attempts.send_with_retries().await.unwrap_err();
    let ModelErrorKind::Unreachable { why, .. } = &failed.kind else { panic!("{failed:?}") };
    assert_eq!((why.as_str(), attempts.count), ("no connection within 0.001 s (connect_timeout)", 3));
}

#[test]
fn a_header_that_cannot_be_sent_is_named_and_its_value_is_not() {
    for name in ["", "a b", "x\n", "caf\u{e9}"] {
        let error = secret_header(name, "sk-secret").unwrap_err();
        assert!(error.ends_with("is not a name of a header") && !error.contains('\n'), "{error}");
    }
    for value in ["sk-secret\n", "sk-\0secret"] {
        let error = secret_header("X-Key", value).unwrap_err();
        assert_eq!(error, "the value for the header `x-key` has forbidden characters");
    }
    let (_, value) = secret_header("X-Key", "sk-secret").unwrap();
    assert!(value.is_sensitive() && !format!("{value:?}").contains("secret"));
}
