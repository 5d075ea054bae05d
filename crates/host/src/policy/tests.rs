use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::{
    mcp::Annotations,
    principal::{Kind, Principal, Role},
    spec::ServerName,
    witness::Caller,
};

/// A rule of the model that the policy is compared with. Its patterns have at most one `*`, at their end.
#[derive(Clone, Debug)]
struct ModelRule {
    effect: Effect,
    server: Option<&'static str>,
    tool: &'static str,
    path: Option<&'static str>,
    client: Option<&'static str>,
    read_only: Option<bool>,
}

/// A call of that model.
#[derive(Clone, Debug)]
struct ModelCall {
    server: &'static str,
    tool: &'static str,
    path: Option<&'static str>,
    way: Way,
    read_only: Option<bool>,
}

impl ModelRule {
    fn rule(&self) -> Rule {
        let pattern = match self.server {
            Some(server) => format!("{server}/{}", self.tool),
            None => self.tool.to_owned(),
        };
        let mut rule = Rule::new(self.effect, pattern.parse().unwrap());
        if let Some(path) = self.path {
            rule = rule.argument(ArgumentRule::glob("path", path).unwrap());
        }
        let clients: Vec<_> = self.client.iter().map(ToString::to_string).collect();
        let hints = Hints { read_only: self.read_only, ..Hints::default() };
        rule.clients(&clients).unwrap().hints(hints)
    }

    fn covers(&self, call: &ModelCall) -> bool {
        self.server.is_none_or(|glob| fits(glob, call.server))
            && fits(self.tool, call.tool)
            && self.path.is_none_or(|glob| call.path.is_some_and(|path| fits(glob, path)))
            && self.client.is_none_or(|client| client == call.way.word())
            && self.read_only.is_none_or(|wanted| wanted == (call.read_only == Some(true)))
    }

    /// The specificity of the tool, the server, the arguments, the callers and the hints. A name without `*` is more
    /// specific than a glob, and a longer one more specific than a shorter one.
    fn specificity(&self) -> [usize; 5] {
        let weight = |glob: &str| if glob.contains('*') { glob.len() - 1 } else { 1_000 + glob.len() };
        let conditions = [self.path.is_some(), self.client.is_some(), self.read_only.is_some()].map(usize::from);
        [weight(self.tool), self.server.map_or(0, weight), conditions[0], conditions[1], conditions[2]]
    }
}

fn fits(glob: &str, name: &str) -> bool {
    glob.strip_suffix('*').map_or(glob == name, |start| name.starts_with(start))
}

/// The verdict of the rules, as the documentation describes it.
fn model(rules: &[ModelRule], (default_effect, allow_read_only): (DefaultEffect, bool), call: &ModelCall) -> Effect {
    let matching: Vec<_> = rules.iter().filter(|rule| rule.covers(call)).collect();
    if matching.iter().any(|rule| rule.effect == Effect::Deny) {
        return Effect::Deny;
    }
    if let Some(most) = matching.iter().map(|rule| rule.specificity()).max() {
        let mut best = matching.iter().filter(|rule| rule.specificity() == most);
        return if best.any(|rule| rule.effect == Effect::Confirm) { Effect::Confirm } else { Effect::Allow };
    }
    match default_effect {
        _ if allow_read_only && call.read_only == Some(true) => Effect::Allow,
        DefaultEffect::Allow => Effect::Allow,
        DefaultEffect::Confirm if call.way == Way::Cli => Effect::Allow,
        DefaultEffect::Confirm => Effect::Confirm,
        DefaultEffect::Deny => Effect::Deny,
    }
}

fn effect(verdict: &Verdict) -> Effect {
    match verdict {
        Verdict::Allow { .. } => Effect::Allow,
        Verdict::Confirm { .. } => Effect::Confirm,
        Verdict::Deny { .. } => Effect::Deny,
    }
}

impl ModelCall {
    fn ask<T>(&self, about: impl FnOnce(&GateRequest<'_>) -> T) -> T {
        let server = ServerName::new(self.server).unwrap();
        let arguments: Map<_, _> = self.path.iter().map(|path| ("path".to_owned(), Value::from(*path))).collect();
        let annotations = Annotations { read_only: self.read_only, ..Annotations::default() };
        about(
            &GateRequest::unlisted(&server, self.tool, &arguments, &annotations).with_caller(&Caller::local(self.way)),
        )
    }
}

fn model_rule() -> impl Strategy<Value = ModelRule> {
    let effect = prop::sample::select(vec![Effect::Allow, Effect::Confirm, Effect::Deny]);
    let server = prop::option::of(prop::sample::select(vec!["fs", "f*", "*", "git"]));
    let tool = prop::sample::select(vec!["read", "re*", "r*", "*", "wipe"]);
    let path = prop::option::of(prop::sample::select(vec!["/tmp/*", "/tmp/a", "*"]));
    let client = prop::option::of(prop::sample::select(vec!["cli", "gateway"]));
    (effect, server, tool, path, client, prop::option::of(any::<bool>())).prop_map(
        |(effect, server, tool, path, client, read_only)| ModelRule { effect, server, tool, path, client, read_only },
    )
}

fn call() -> impl Strategy<Value = ModelCall> {
    let server = prop::sample::select(vec!["fs", "git"]);
    let tool = prop::sample::select(vec!["read", "remove", "wipe"]);
    let path = prop::option::of(prop::sample::select(vec!["/tmp/a", "/tmp/b", "/etc"]));
    let way = prop::sample::select(vec![Way::Cli, Way::Gateway, Way::Agent]);
    (server, tool, path, way, prop::option::of(any::<bool>()))
        .prop_map(|(server, tool, path, way, read_only)| ModelCall { server, tool, path, way, read_only })
}

fn user_default() -> impl Strategy<Value = (DefaultEffect, bool)> {
    (prop::sample::select(vec![DefaultEffect::Allow, DefaultEffect::Confirm, DefaultEffect::Deny]), any::<bool>())
}

fn policy(rules: &[ModelRule], (default_effect, allow_read_only): (DefaultEffect, bool)) -> Policy {
    let policy = Policy::new(default_effect).allow_read_only(allow_read_only);
    rules.iter().fold(policy, |policy, rule| policy.rule(rule.rule()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_policy_decides_as_the_model_does_whatever_the_order_of_rules(
        rules in prop::collection::vec(model_rule(), 0..8), user_default in user_default(), call in call(), rotation in 0_usize..8,
    ) {
        let mut reordered = rules.clone();
        reordered.rotate_left(rotation % rules.len().max(1));
        reordered.reverse();
        let verdict = call.ask(|request| policy(&rules, user_default).judge(request));
        prop_assert_eq!(effect(&verdict), model(&rules, user_default, &call));
        prop_assert_eq!(&call.ask(|request| policy(&reordered, user_default).judge(request)), &verdict);
        let explained = policy(&rules, user_default);
        let explained = call.ask(|request| explained.explain(request));
        prop_assert_eq!(explained.verdict, verdict);
        let matches_any = rules.iter().any(|rule| rule.covers(&call));
        prop_assert_eq!(explained.rules.iter().filter(|rule| rule.part == Part::Decides).count(), usize::from(matches_any));
    }

    #[test]
    fn rules_of_a_project_never_allow_more(
        user_rules in prop::collection::vec(model_rule(), 0..6), project_rules in prop::collection::vec(model_rule(), 0..6),
        user_default in user_default(), project_default in user_default(), call in call(),
    ) {
        let alone = policy(&user_rules, user_default);
        let both = alone.clone().stricter(&policy(&project_rules, project_default), project_default.0);
        let (alone, both) = call.ask(|request| (alone.judge(request), both.judge(request)));
        prop_assert!(both.strictness() >= alone.strictness(), "{alone:?} became {both:?}");
    }
}

fn arguments(json: Value) -> Map<String, Value> {
    json.as_object().unwrap().clone()
}

#[test]
fn an_argument_is_found_by_name_or_pointer_and_matched_in_full() {
    let path = |glob| ArgumentRule::glob("path", glob).unwrap();
    assert!(path("/tmp/*").fits(&arguments(json!({ "path": "/tmp/a/b" })), false));
    assert!(!path("tmp/*").fits(&arguments(json!({ "path": "/tmp/a" })), false));
    for absent in [json!({}), json!({ "path": null }), json!({ "Path": "x" })] {
        assert!(!path("*").fits(&arguments(absent.clone()), false) && !path("*").fits(&arguments(absent), true));
    }
    let deep = ArgumentRule::glob("/to/1/a~1b", "x").unwrap();
    assert!(deep.fits(&arguments(json!({ "to": [0, { "a/b": "x" }] })), false));
    let count = ArgumentRule::regex("count", r"\d|true").unwrap();
    assert!(
        count.fits(&arguments(json!({ "count": 7 })), false) && count.fits(&arguments(json!({ "count": true })), false)
    );
    assert!(!count.fits(&arguments(json!({ "count": 42 })), false), "the whole text");
    assert!(!count.fits(&arguments(json!({ "count": "7\n" })), false));
}

#[test]
fn an_argument_that_cannot_be_judged_is_denied_by_a_denying_rule_and_allowed_by_none() {
    let rule = ArgumentRule::glob("path", "/etc/*").unwrap();
    let fits = |value: Value| {
        let given = arguments(json!({ "path": value }));
        (rule.fits(&given, false), rule.fits(&given, true))
    };
    assert_eq!(fits(json!(["/etc/a", "/etc/b"])), (true, true));
    assert_eq!(fits(json!(["/etc/a", "/tmp"])), (false, true));
    assert_eq!(fits(json!([])), (false, false));
    assert_eq!(fits(json!({ "inside": ["/etc/a"] })), (false, true));
    assert_eq!(fits(json!("x".repeat(64 * 1024 + 1))), (false, true));
}

#[test]
fn a_regular_expression_is_bounded_and_cannot_escape_its_anchors() {
    for (written, problem) in [
        ("a".repeat(513), "longer than 512 bytes"),
        (r"\w{1000}{1000}".to_owned(), "more than 256 KiB"),
        ("(".to_owned(), "unclosed group"),
        ("a)|(.*".to_owned(), "unopened group"),
    ] {
        let error = ArgumentRule::regex("a", &written).unwrap_err().to_string();
        assert!(error.contains(problem) && !error.contains('\n'), "{error}");
    }
    assert_eq!(ArgumentRule::glob("", "x").unwrap_err(), BadRule::NoArgument);
}

fn judged(policy: &Policy, caller: &Caller, annotations: &Annotations) -> Effect {
    let server = ServerName::new("fs").unwrap();
    effect(&policy.judge(&GateRequest::unlisted(&server, "wipe", &Map::new(), annotations).with_caller(caller)))
}

#[test]
fn rules_match_clients_by_way_and_by_self_given_name() {
    let rule = |client: &str| {
        let rule = Rule::new(Effect::Deny, "*".parse().unwrap()).clients(&[client.to_owned()]).unwrap();
        Policy::new(DefaultEffect::Allow).rule(rule)
    };
    let is_denied =
        |client: &str, caller: Caller| judged(&rule(client), &caller, &Annotations::default()) == Effect::Deny;
    let editor = || Caller::local(Way::Gateway).with_client("an editor");
    assert!(
        is_denied("gateway", editor()) && is_denied("gateway/an *", editor()) && is_denied("*/an editor", editor())
    );
    assert!(!is_denied("gateway/vi", editor()) && !is_denied("cli", editor()) && !is_denied("api", editor()));
    assert!(is_denied("api", Caller::local(Way::Daemon)) && is_denied("daemon", Caller::local(Way::Daemon)));
}

#[test]
fn rules_for_an_agent_or_tenant_apply_to_no_other() {
    let of = |name: &str| vec![name.to_owned()];
    let rule = || Rule::new(Effect::Deny, "*".parse().unwrap());
    let agent = Policy::new(DefaultEffect::Allow).rule(rule().agents(&of("review*")).unwrap());
    let tenant = Policy::new(DefaultEffect::Allow).rule(rule().tenants(&of("acme")).unwrap());
    let by = |policy: &Policy, caller: &Caller| judged(policy, caller, &Annotations::default());
    let local = |policy: Policy| by(&policy, &Caller::default());
    assert_eq!(local(agent.clone()), Effect::Allow);
    assert_eq!(local(agent.clone().for_agent(Some("writer"))), Effect::Allow);
    assert_eq!(local(agent.for_agent(Some("reviewer"))), Effect::Deny);
    assert_eq!(local(tenant.clone()), Effect::Allow);
    let of_tenant = |tenant| Caller::of(person(tenant, "u-1"), Way::Gateway);
    assert_eq!(by(&tenant, &of_tenant("acme")), Effect::Deny);
    assert_eq!(by(&tenant, &of_tenant("other")), Effect::Allow);
}

fn person(tenant: &str, subject: &str) -> Principal {
    Principal::new(Kind::Person, tenant, "https://login.example", subject).unwrap()
}

#[test]
fn a_rule_matches_users_by_group_role_and_subject_but_never_by_display_name() {
    let ann = || person("acme", "u-17").named("bob").unwrap().in_groups(["eng", "on-call"]).unwrap();
    let is_denied = |who: &str, principal: Principal| {
        let rule = Rule::new(Effect::Deny, "*".parse().unwrap()).who(&[who.to_owned()]).unwrap();
        let caller = Caller::of(principal, Way::Gateway).with_client("group:ops");
        judged(&Policy::new(DefaultEffect::Allow).rule(rule), &caller, &Annotations::default()) == Effect::Deny
    };
    for who in ["group:eng", "group:on-*", "role:user", "person:u-17", "person:u-*"] {
        assert!(is_denied(who, ann()), "{who}");
    }
    for who in ["group:ops", "group:engineering", "role:operator", "person:bob", "service:u-17"] {
        assert!(!is_denied(who, ann()), "{who}");
    }
    assert!(is_denied("role:operator", ann().with_role(Role::Operator)));
    assert!(is_denied("role:admin", Principal::LOCAL) && !is_denied("group:*", Principal::LOCAL));
    for bad in ["eng", "team:eng", "", ":", "group:"] {
        let refused = Rule::new(Effect::Deny, "*".parse().unwrap()).who(&[bad.to_owned()]);
        assert!(refused.is_err(), "{bad}");
    }
}

#[test]
fn missing_annotations_have_the_defaults_of_mcp() {
    let hinted = |hints: Hints| {
        Policy::new(DefaultEffect::Allow).rule(Rule::new(Effect::Deny, "*".parse().unwrap()).hints(hints))
    };
    let is_denied =
        |hints: Hints, claims: &Annotations| judged(&hinted(hints), &Caller::default(), claims) == Effect::Deny;
    let (silent, yes, no) = (Annotations::default(), Some(true), Some(false));
    let reads = Annotations { read_only: yes, ..Annotations::default() };
    assert!(is_denied(Hints { destructive: yes, ..Hints::default() }, &silent));
    assert!(is_denied(Hints { open_world: yes, ..Hints::default() }, &silent));
    assert!(is_denied(Hints { idempotent: no, ..Hints::default() }, &silent));
    assert!(!is_denied(Hints { destructive: yes, ..Hints::default() }, &reads));
    assert!(is_denied(Hints { read_only: yes, destructive: no, ..Hints::default() }, &reads));
}

#[test]
fn an_unreadable_policy_denies_every_call() {
    let caller = Caller::local(Way::Cli);
    let broken = Policy::broken("toolrack.toml:3 has errors");
    assert_eq!(judged(&broken, &caller, &Annotations::default()), Effect::Deny);
    let project = Policy::new(DefaultEffect::Allow).stricter(&broken, DefaultEffect::Allow);
    assert_eq!(judged(&project, &caller, &Annotations::default()), Effect::Deny);
    assert!(!broken.is_empty() && !project.is_empty() && Policy::default().is_empty());
}

#[test]
fn take_back_removes_rules_added_at_run_time_and_keeps_those_of_files() {
    let wipe: Pattern = "wipe".parse().unwrap();
    let origin = Origin { path: "/home/ada/toolrack.toml".into(), line: 3 };
    let written = Rule::new(Effect::Deny, wipe.clone()).written_in(origin);
    let mut policy = Policy::new(DefaultEffect::Allow).deny(wipe.clone()).rule(written);
    policy.take_back(Effect::Deny, &wipe);
    let left: Vec<_> = policy.rules().map(ToString::to_string).collect();
    assert_eq!(left, ["deny `wipe` (toolrack.toml:3)"]);
}

#[test]
fn a_hundred_rules_are_judged_quickly() {
    let rules = (0..100).map(|n| Rule::new(Effect::Allow, format!("server-{n}/tool_[a-z]*_{n}").parse().unwrap()));
    let policy = rules.fold(Policy::default(), Policy::rule);
    let began = std::time::Instant::now();
    for _ in 0..1_000 {
        judged(&policy, &Caller::default(), &Annotations::default());
    }
    // A hundred times the usual duration, so that the test passes on a busy machine.
    assert!(began.elapsed().as_millis() < 1_000, "{:?} for a thousand", began.elapsed());
}

#[test]
fn numbers_are_compared_as_numbers() {
    let fits = |rule: &ArgumentRule, n: &str| {
        let given = serde_json::from_str(&format!("{{\"n\":{n}}}")).unwrap();
        (rule.fits(&given, false), rule.fits(&given, true))
    };
    let one = ArgumentRule::glob("n", "1").unwrap();
    for written in ["1", "1.0", "1e0", "10E-1", "[1.0]"] {
        assert_eq!(fits(&one, written), (true, true), "{written}");
        assert_eq!(fits(&ArgumentRule::glob("n", "1.0").unwrap(), written), (true, true), "{written}");
    }
    assert_eq!(fits(&one, "\"1\""), (true, true));
    for text in ["1.0", " 1 ", "+1", "01", "1.", "0_1"] {
        assert_eq!(fits(&one, &json!(text).to_string()), (false, true), "some servers read {text:?} as a number");
    }
    for other in ["2", "-1", "1.5", "true", "\"one\"", "null"] {
        assert_eq!(fits(&one, other), (false, false), "{other}");
    }
    let tens = ArgumentRule::glob("n", "10*").unwrap();
    assert_eq!(fits(&tens, "1e2"), (true, true), "patterns see plain decimals");
    let digits = ArgumentRule::regex("n", r"\d+").unwrap();
    assert_eq!(
        (fits(&digits, "1e3"), fits(&digits, "-0"), fits(&digits, "0.5")),
        ((true, true), (true, true), (false, false))
    );
    let big = ArgumentRule::glob("n", "9007199254740992").unwrap();
    assert_eq!(fits(&big, "9007199254740993"), (false, false));
}

#[test]
fn text_that_some_program_reads_as_a_number_is_denied_and_never_allowed() {
    let (glob, regex) = (ArgumentRule::glob("n", "1").unwrap(), ArgumentRule::regex("n", "[0-5]").unwrap());
    for text in ["0x1", "0X01", "0b1", "0o1", "\u{feff}1", "\u{ff11}", "\u{661}", "\u{feff}+\u{1d7cf}"] {
        for value in [json!(text), json!([[text]]), json!({ "x": text })] {
            let given = arguments(json!({ "n": value }));
            for rule in [&glob, &regex] {
                assert!(rule.fits(&given, true), "{value} is denied");
                assert!(!rule.fits(&given, false), "{value} is not allowed");
            }
        }
    }
}

#[test]
fn a_line_break_hides_no_text_from_a_regular_expression() {
    let rule = ArgumentRule::regex("path", r".*\.(key|pem)").unwrap();
    for path in ["a\n/../a.key", "\r\n.pem", "a\u{2028}b.key", "\0.key"] {
        assert!(rule.fits(&arguments(json!({ "path": path })), true), "{path:?}");
    }
    assert!(!rule.fits(&arguments(json!({ "path": "a.key\n" })), true), "`\\z`, not `$` before a line break");
}

fn judged_pair(policy: &Policy, server: &str, tool: &str) -> Effect {
    let (server, arguments, annotations) = (ServerName::new(server).unwrap(), Map::new(), Annotations::default());
    effect(&policy.judge(&GateRequest::unlisted(&server, tool, &arguments, &annotations)))
}

#[test]
fn a_rule_means_the_same_in_every_spelling() {
    for written in ["fake/big", "fake.big", "mcp__fake__big", "mcp_fake__big", "fake_big", "mcp__fake", "mcp__fake__*"]
    {
        let pattern: Pattern = written.parse().unwrap();
        let denies = Policy::new(DefaultEffect::Allow).deny(pattern.clone());
        assert_eq!(judged_pair(&denies, "fake", "big"), Effect::Deny, "{written}");
        assert_eq!(judged_pair(&denies, "other", "big"), Effect::Allow, "{written}");
        let allows = Policy::new(DefaultEffect::Deny).allow(pattern.clone());
        assert_eq!(judged_pair(&allows, "fake", "big"), Effect::Allow, "{written}");
        assert_eq!(judged_pair(&allows, "other", "big"), Effect::Deny, "{written}");
        assert_eq!(denies.rules().count(), 1, "{written}: all spellings are one rule");
        let mut taken_back = denies;
        taken_back.take_back(Effect::Deny, &pattern);
        assert_eq!(judged_pair(&taken_back, "fake", "big"), Effect::Allow, "{written}: all its spellings are removed");
    }
}

#[test]
fn another_spelling_is_as_specific_as_the_pair() {
    let policy =
        Policy::new(DefaultEffect::Deny).allow("mcp__fake__*".parse().unwrap()).confirm("fake/wipe*".parse().unwrap());
    assert_eq!(judged_pair(&policy, "fake", "wipe_all"), Effect::Confirm);
    assert_eq!(judged_pair(&policy, "fake", "read"), Effect::Allow);
}

#[test]
fn a_rule_that_can_match_nothing_is_idle() {
    let policy = ["mcp__fake__big", "fake/*", "echo", "mcp__gone__x", "gone/x", "mcp__gone"]
        .into_iter()
        .fold(Policy::default(), |policy, written| policy.deny(written.parse().unwrap()));
    let mut idle: Vec<_> = policy.idle(&["fake", "other"]).map(|rule| rule.pattern().to_string()).collect();
    idle.sort();
    assert_eq!(idle, ["gone/x", "mcp__gone", "mcp__gone__x"]);
}
