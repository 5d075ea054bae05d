//! What a person sees, and which answers count.

use crate::{
    browser::{Answer, Browser, parameter},
    stage::{BACK, Stage},
};

/// A page that asks Ann, in her browser.
async fn asked(stage: &Stage) -> (Browser, Answer) {
    let client = stage.client().await;
    let mut ann = stage.ann().await;
    let page = ann.get(&stage.authorize(&client, &[])).await;
    assert_eq!(page.status, 200, "{}", page.body);
    (ann, page)
}

async fn post(stage: &Stage, browser: &mut Browser, page: &Answer, changed: &[(&str, &str)]) -> Answer {
    let fields = [("request", page.field("request")), ("ends", page.field("ends")), ("seal", page.field("seal"))];
    let value = |name: &str, own: &str| {
        changed.iter().find(|(other, _)| *other == name).map_or(own, |(_, value)| value).to_owned()
    };
    let form: Vec<_> = fields
        .iter()
        .map(|(name, own)| (*name, value(name, own)))
        .chain([("answer", value("answer", "allow"))])
        .collect();
    let form: Vec<_> = form.iter().map(|(name, value)| (*name, &**value)).collect();
    browser.post(&stage.at("/oauth/authorize"), &form).await
}

#[tokio::test]
async fn the_page_shows_the_client_the_destination_and_the_user() {
    let stage = Stage::new().await;
    let client = stage.client_called("Claude", "https://evil.example/back").await;
    let page = stage.ann().await.get(&stage.authorize(&client, &[("redirect_uri", "https://evil.example/back")])).await;
    for shown in ["Claude", "evil.example", "ann", "acme", "The client chose its name itself"] {
        assert!(page.body.contains(shown), "{shown}: {}", page.body);
    }
}

#[tokio::test]
async fn a_name_is_text_and_runs_nothing() {
    let stage = Stage::new().await;
    let name = "<script>alert(1)</script>\" onload=\"x\u{202e}\u{0}\nline";
    let client = stage.client_called(name, BACK).await;
    let page = stage.ann().await.get(&stage.authorize(&client, &[])).await;
    assert!(page.body.contains("&lt;script&gt;"), "{}", page.body);
    assert!(!page.body.contains("<script") && !page.body.contains('\u{202e}') && !page.body.contains('\u{0}'));
    assert!(!page.body.contains("onload=\"x"));
}

#[tokio::test]
async fn no_other_page_frames_it_and_no_script_runs_in_it() {
    let stage = Stage::new().await;
    let (_ann, page) = asked(&stage).await;
    let policy = page.header("content-security-policy");
    for part in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("script") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("x-frame-options"), "DENY");
    assert_eq!(page.header("referrer-policy"), "same-origin");
    assert_eq!(page.header("cache-control"), "no-store");
    let error = Browser::new().get(&stage.at("/oauth/authorize")).await;
    assert_eq!((error.status.as_u16(), error.header("x-frame-options")), (400, "DENY"));
}

#[tokio::test]
async fn the_code_goes_to_the_client_with_its_state_and_who_answers() {
    let stage = Stage::new().await;
    let (mut ann, page) = asked(&stage).await;
    let answer = post(&stage, &mut ann, &page, &[]).await;
    let to = answer.location().unwrap();
    assert!(answer.status == 303 && to.as_str().starts_with(&format!("{BACK}&code=")), "{to}");
    assert_eq!(parameter(&to, "state").as_deref(), Some("the state"));
    assert_eq!(parameter(&to, "iss").as_deref(), Some(stage.url.as_str().trim_end_matches('/')));
    assert!(!stage.has_in_a_file(&parameter(&to, "code").unwrap()));
    let kinds: Vec<_> = stage.audit().await.into_iter().map(|entry| entry.kind).collect();
    assert!(kinds.contains(&"client_allowed".to_owned()), "{kinds:?}");
}

#[tokio::test]
async fn a_user_who_refuses_gives_no_value() {
    let stage = Stage::new().await;
    let (mut ann, page) = asked(&stage).await;
    for answer in ["deny", "", "yes"] {
        let to = post(&stage, &mut ann, &page, &[("answer", answer)]).await.location().unwrap();
        assert_eq!(parameter(&to, "error").as_deref(), Some("access_denied"));
        assert_eq!(parameter(&to, "code"), None);
    }
}

#[tokio::test]
async fn a_form_of_another_page_is_refused() {
    let stage = Stage::new().await;
    let (mut ann, page) = asked(&stage).await;
    for (name, value) in [("origin", "https://evil.example"), ("origin", "null"), ("sec-fetch-site", "cross-site")] {
        ann.headers = vec![(name, value.to_owned())];
        let answer = post(&stage, &mut ann, &page, &[]).await;
        assert_eq!((answer.status.as_u16(), answer.location()), (403, None), "{value}");
    }
    ann.headers = vec![("origin", stage.url.origin().ascii_serialization())];
    assert_eq!(post(&stage, &mut ann, &page, &[]).await.status, 303);
    assert_eq!(stage.refusals().await, vec![("authorize".to_owned(), "cross_site".to_owned()); 3]);
}

#[tokio::test]
async fn an_answer_is_valid_only_for_the_page_shown_in_that_browser() {
    let stage = Stage::new().await;
    let (mut ann, page) = asked(&stage).await;
    let other = stage.client_called("Another client", BACK).await;
    let request = page.field("request");
    let for_other = stage.authorize(&other, &[]).query().unwrap().to_owned();
    let wider = format!("{request}&more=1");
    let later = (page.field("ends").parse::<i64>().unwrap() + 1).to_string();
    for changed in [
        ("seal", ""),
        ("seal", "00"),
        ("seal", &*"0".repeat(64)),
        ("request", &*for_other),
        ("request", &*wider),
        ("ends", &*later),
        ("ends", "x"),
    ] {
        let answer = post(&stage, &mut ann, &page, &[changed]).await;
        assert_eq!((answer.status.as_u16(), answer.location()), (403, None), "{changed:?}");
    }
    // The same person in another browser, another person, and a browser without a session.
    for mut browser in [stage.ann().await, stage.person("eve", "bolt").await] {
        let answer = post(&stage, &mut browser, &page, &[]).await;
        assert_eq!((answer.status.as_u16(), answer.location()), (403, None));
    }
    let answer = post(&stage, &mut Browser::new(), &page, &[]).await;
    assert_eq!(answer.location().unwrap().path(), "/sign-in");
    assert_eq!(stage.refusals().await.len(), 9);
    assert_eq!(post(&stage, &mut ann, &page, &[]).await.status, 303, "the page itself still counts");
}
