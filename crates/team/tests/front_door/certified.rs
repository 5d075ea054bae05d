//! Sign-ins at a certified provider: `oidc-provider` from npm.

mod needs_provider {
    use std::{
        path::{Path, PathBuf},
        process::Stdio,
    };

    use tokio::{
        io::{AsyncBufReadExt as _, BufReader, Lines},
        process::{Child, ChildStdout, Command},
    };
    use toolrack_store::TokenHash;
    use url::Url;

    use crate::{
        browser::{Answer, Browser, parameter},
        stage::{BACK, Stage, listen, pair, sign_in as sign_in_section},
    };

    /// Returns the path in the variable, or the default path, where `cargo xtask install` puts the program.
    #[expect(clippy::disallowed_methods, reason = "variables tell tests where programs are")]
    fn installed(variable: &str, default: &str) -> PathBuf {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let place = std::env::var_os(variable).map_or_else(|| repository.join(default), PathBuf::from);
        assert!(place.exists(), "{} is not there: run `cargo xtask install`", place.display());
        place
    }

    /// A running provider. It ends when this is dropped.
    struct Running {
        _child: Child,
        _lines: Lines<BufReader<ChildStdout>>,
    }

    /// Starts the provider, and returns it with its issuer.
    async fn provider(back: &str) -> (Running, Url) {
        let modules = installed("TOOLRACK_TEST_PROVIDER", ".cache/provider/node_modules");
        let mut child = Command::new(installed("TOOLRACK_TEST_NODE22", ".cache/npm/node_modules/.bin/node"))
            .arg(modules.with_file_name("provider.mjs"))
            .args(["s3cret/of the+client", back])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let issuer = lines.next_line().await.unwrap().expect("the provider says its issuer");
        (Running { _child: child, _lines: lines }, issuer.parse().unwrap())
    }

    /// Fills in the forms of the provider: `address` signs in, and lets the team know this.
    async fn sign_in(browser: &mut Browser, stage: &Stage, from: &Url, address: &str) -> Answer {
        let back = stage.at("/sign-in/back");
        let mut page = browser.follow(from, back.as_str()).await;
        for _ in 0..3 {
            if let Some(way) = page.location() {
                return browser.get(&way).await;
            }
            let prompt = page.field("prompt");
            let (_, rest) = page.body.split_once("action=\"").unwrap();
            let action = page.url.join(rest.split_once('"').unwrap().0).unwrap();
            let form = [("prompt", &*prompt), ("login", address), ("password", "any")];
            let next = browser.post(&action, &form).await.location().unwrap();
            page = browser.follow(&next, back.as_str()).await;
        }
        panic!("the provider goes on asking: {}", page.body);
    }

    #[tokio::test]
    async fn a_user_signs_in_and_allows_a_client_whose_tokens_are_renewed_and_end() {
        let (listener, url) = listen().await;
        let (_provider, issuer) = provider(url.join("/sign-in/back").unwrap().as_str()).await;
        let stage = Stage::on(listener, url, &sign_in_section(&issuer)).await;
        let client = stage.client().await;

        // The client opens a browser without a session.
        let mut browser = Browser::new();
        let begin = browser.get(&stage.authorize(&client, &[])).await.location().unwrap();
        let answer = sign_in(&mut browser, &stage, &begin, "ann@acme.example").await;
        let page = browser.get(&answer.location().unwrap()).await;
        assert!(page.body.contains("A client") && page.body.contains("acme"), "{}", page.body);

        let to = stage.allow(&mut browser, &page).await.location().unwrap();
        assert!(to.as_str().starts_with(BACK) && parameter(&to, "iss").is_some(), "{to}");
        let code = parameter(&to, "code").unwrap();
        let (access, refresh) = pair(&stage.exchange(&client, &code, &[]).await);
        let member = stage.store.team_token(TokenHash::of(&access)).await.unwrap().unwrap().member;
        assert_eq!((member.subject(), member.tenant()), ("ann@acme.example", "acme"));
        assert_eq!(member.issuer(), issuer.as_str().trim_end_matches('/'));
        assert!(member.is_in("eng"));

        let (renewed, _) = pair(&stage.refresh(&client, &refresh, &[]).await);
        assert!(stage.is_valid(&renewed).await);
        assert_eq!(stage.refresh(&client, &refresh, &[]).await.error(), "invalid_grant");
        assert!(!stage.is_valid(&renewed).await && !stage.is_valid(&access).await);

        // A person who belongs to no tenant is not signed in.
        let mut other = Browser::new();
        let answer = sign_in(&mut other, &stage, &stage.at("/sign-in"), "eve@evil.example").await;
        assert_eq!(answer.status, 403);
        assert!(answer.body.contains("eve@evil.example"), "{}", answer.body);
    }
}
