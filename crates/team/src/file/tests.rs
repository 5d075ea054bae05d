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
    assert!(replaced("\"acme\"", "\"local\"").contains("is not `local`"));
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
