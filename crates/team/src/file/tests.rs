use super::*;

const FILE: &str = r#"
    url = "https://tools.example"

    [[tenants]]
    id = "acme"
    members = ["*@acme.example"]
    groups = ["acme-staff"]

    [tenants.roles]
    admin = ["acme-admins"]

    [[tenants]]
    id = "bolt"
    home = "/srv/bolt"
    role = "viewer"

    [[issuers]]
    issuer = "https://tokens.example"
    tenants = ["bolt"]
"#;

fn refusal(change: impl Fn(&str) -> String) -> String {
    TeamFile::parse(&change(FILE), Path::new("/team")).unwrap_err().to_string()
}

#[test]
fn homes_begin_beside_the_file_and_roles_have_words() {
    let team = TeamFile::parse(FILE, Path::new("/team")).unwrap();
    assert_eq!(team.tenant("acme").unwrap().home, Path::new("/team/tenants/acme"));
    assert_eq!(team.tenant("bolt").unwrap().home, Path::new("/srv/bolt"));
    assert_eq!(team.tenant("acme").unwrap().roles[&Role::Admin], ["acme-admins"]);
    assert_eq!((team.tenant("acme").unwrap().role, team.tenant("bolt").unwrap().role), (Role::User, Role::Viewer));
    assert!(team.tenant("other").is_none());
}

#[test]
fn a_mistake_in_the_file_is_named() {
    let replaced = |from: &str, to: &str| refusal(|file| file.replace(from, to));
    assert!(replaced("role = \"viewer\"", "rule = \"viewer\"").contains("rule"));
    assert!(replaced("\"viewer\"", "\"root\"").contains("root"));
    assert!(replaced("https://tools.example", "http://tools.example").contains("must be https"));
    assert!(replaced("https://tools.example", "https://tools.example/mcp").contains("no path"));
    assert!(replaced("https://tokens.example", "https://u:p@tokens.example").contains("no user"));
    assert!(replaced("\"bolt\"\n    home", "\"acme\"\n    home").contains("have the id `acme`"));
    assert!(replaced("/srv/bolt", "/team/tenants/acme").contains("have the home"));
    assert!(replaced("tenants = [\"bolt\"]", "tenants = [\"bold\"]").contains("no tenant `bold`"));
    assert!(replaced("*@acme.example", "*@*").contains("is not an address"));
    assert!(replaced("\"acme\"", "\"../acme\"").contains("name of a tenant"));
    assert!(replaced("\"acme\"", "\"local\"").contains("must not be `local`"));
    let twice = |file: &str| format!("{file}\n[[issuers]]\nissuer = \"https://tokens.example\"\ntenants = []");
    assert!(refusal(twice).contains("have the issuer"));
}

#[test]
fn a_provider_on_this_machine_needs_no_https_and_its_secret_is_in_no_debug_text() {
    let file = FILE.to_owned()
        + "[sign_in]\nissuer = \"http://127.0.0.1:9000\"\nclient_id = \"toolrack\"\nclient_secret = \"s3cret\"";
    let team = TeamFile::parse(&file, Path::new("/team")).unwrap();
    assert!(!format!("{team:?}").contains("s3cret"));
    assert_eq!(team.sign_in.unwrap().scopes, ["profile", "email"]);
}

#[test]
fn a_team_names_its_database_and_how_long_that_may_take() {
    let of = |table: &str| TeamFile::parse(&format!("{FILE}\n[store]\n{table}"), Path::new("/team"));
    let store =
        of("url = \"${DATABASE}\"\nmost_connections = 5\nconnect_timeout = \"500ms\"\nlock_timeout = 2").unwrap();
    let store = store.store.unwrap();
    assert!(matches!(&store.url, StoreUrl::Text(text) if text == "${DATABASE}"));
    assert_eq!(store.most_connections.map(u32::from), Some(5));
    assert_eq!(store.connect_timeout, Some(std::time::Duration::from_millis(500)));
    assert_eq!(store.lock_timeout, Some(std::time::Duration::from_secs(2)));
    assert_eq!(store.acquire_timeout, None);
    let file = of("url = { file = \"url.txt\" }").unwrap().store.unwrap().url;
    assert!(matches!(file, StoreUrl::File(UrlFile { file }) if file == Path::new("/team/url.txt")));
    let command = of("url = { command = [\"vault\", \"read\"] }").unwrap().store.unwrap().url;
    assert!(matches!(command, StoreUrl::Command(UrlCommand { command }) if command == ["vault", "read"]));
    for wrong in ["lock_timeout = 0", "lock_timeout = \"5 fortnights\"", "lock_timeout = true"] {
        let error = of(&format!("url = \"postgres://h/n\"\n{wrong}")).unwrap_err().to_string();
        assert!(error.contains("a time such as") && error.contains("line "), "{error}");
    }
    assert!(of("most_connections = 5").unwrap_err().to_string().contains("url"));
    assert!(of("url = \"postgres://h/n\"\nmost_connections = 0").is_err());
}

#[test]
fn no_error_and_no_debug_text_has_the_password_of_the_database() {
    let of = |table: &str| TeamFile::parse(&format!("{FILE}\n[store]\n{table}"), Path::new("/team"));
    let good = of("url = \"postgres://toolrack:pa55@db.example/toolrack\"").unwrap();
    assert!(!format!("{good:?}").contains("pa55"));
    for wrong in [
        "url = \"postgres://toolrack:pa55@db.example/toolrack\nmost_connections = 5",
        "url = \"postgres://toolrack:pa55@db.example/toolrack\" 5",
        "url = [\"postgres://toolrack:pa55@db.example/toolrack\"]",
        "url = { url = \"postgres://toolrack:pa55@db.example/toolrack\" }",
        "url = { file = [\"postgres://toolrack:pa55@db.example/toolrack\"] }",
        "url = { file = \"x\", command = [\"postgres://toolrack:pa55@db.example/toolrack\"] }",
        "most_connections = \"postgres://toolrack:pa55@db.example/toolrack\"",
        "prepared_statements = \"postgres://toolrack:pa55@db.example/toolrack\"",
        "uri = \"postgres://toolrack:pa55@db.example/toolrack\"",
    ] {
        let error = of(wrong).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("pa55"), "{error}");
        assert!(error.to_string().contains("cannot be understood: line "), "{error}");
    }
}

#[test]
fn the_export_of_audit_logs_has_bounded_settings() {
    let read = |table: &str| TeamFile::parse(&format!("{FILE}\n[audit_export]\n{table}"), Path::new("/team"));
    let table = "to = \"file:///srv/audit\"\nsigning_key = \"s3cret\"\n";
    let export = read(table).unwrap().audit_export.unwrap();
    assert_eq!(export.to, ExportTarget::Folder("/srv/audit".into()));
    assert_eq!(export.every, std::time::Duration::from_secs(3600));
    assert!(!format!("{export:?}").contains("s3cret"));
    for (line, why) in [
        ("every = \"500ms\"", "from 1s to a day"),
        ("every = \"25h\"", "from 1ms to a day"),
        ("hold = \"366d\"", "from 1ms to 365d"),
        ("rows_per_object = 0", "nonzero"),
        ("retry = 1", "unknown field `retry`"),
    ] {
        let refused = read(&format!("{table}{line}")).unwrap_err().to_string();
        assert!(refused.contains(why), "{line}: {refused}");
    }
    for to in ["/srv/audit", "ftp://host/x", "file:///", "file://host/x", "file:///x?y"] {
        let refused = read(&format!("to = \"{to}\"\nsigning_key = \"x\"")).unwrap_err().to_string();
        assert!(refused.contains("such as \"file:///srv/audit\""), "{to}: {refused}");
    }
}

#[test]
fn a_bucket_for_audit_logs_has_a_name_that_s3_takes_and_its_own_table() {
    let read = |to: &str, s3: &str| {
        let table = format!("[audit_export]\nto = \"{to}\"\nsigning_key = \"x\"\n{s3}");
        TeamFile::parse(&format!("{FILE}\n{table}"), Path::new("/team")).map(|file| file.audit_export.unwrap())
    };
    let s3 = |more: &str| format!("[audit_export.s3]\naccess_key_id = \"x\"\nsecret_access_key = \"s3cret\"\n{more}");
    let aws = s3("region = \"eu-central-1\"");
    for (to, shown) in [
        ("s3://acme-audit", "s3://acme-audit"),
        ("s3://acme.audit/", "s3://acme.audit"),
        ("s3://acme-audit/of/tools/", "s3://acme-audit/of/tools"),
    ] {
        let export = read(to, &aws).unwrap();
        assert_eq!((export.to.to_string(), export.place_name()), (shown.to_owned(), shown.to_owned()));
        assert!(!format!("{export:?}").contains("s3cret"));
    }
    for to in
        ["s3://", "s3://ab", "s3://Acme", "s3://a..b", "s3://-ab", "s3://acme//x", "s3://acme/../x", "s3://acme/x y"]
    {
        let refused = read(to, &aws).unwrap_err().to_string();
        assert!(refused.contains("such as \"s3://bucket/prefix\""), "{to}: {refused}");
    }
    let here = read("s3://acme-audit", &s3("endpoint = \"http://127.0.0.1:9000\"")).unwrap();
    assert_eq!(here.place_name(), "s3://acme-audit at http://127.0.0.1:9000", "another place than that of AWS");
    for (to, table, why) in [
        ("s3://acme-audit", String::new(), "needs the table `[audit_export.s3]`"),
        ("file:///srv/audit", aws.clone(), "`s3` is only for"),
        ("s3://acme-audit", s3(""), "`s3.region` is missing"),
        ("s3://acme-audit", s3("region = \"eu.example\""), "`s3.region` is no region"),
        ("s3://acme-audit", s3("endpoint = \"http://s3.example\""), "no secret goes over the net in the clear"),
        ("s3://acme-audit", s3("endpoint = \"https://s3.example/x\""), "`s3.endpoint` has a path"),
    ] {
        let refused = read(to, &table).unwrap_err().to_string();
        assert!(refused.contains(why) && !refused.contains("s3cret"), "{refused}");
    }
}
