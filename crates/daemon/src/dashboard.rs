//! Serves the dashboard: one page and its files, all in this binary.
//!
//! The page contains no data and no secret, so it loads without a token; it gets all data from the control API. The
//! fragment of its address, which never reaches the daemon, names the open view. The page loads nothing from other
//! origins; [`CSP`] enforces that.

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{Response, StatusCode};
use axum::routing::get;
use data_encoding::HEXLOWER;
use rust_embed::EmbeddedFile;

use self::embedded::{Assets, Guide};

#[cfg_attr(
    debug_assertions,
    expect(clippy::disallowed_methods, reason = "in a debug build, rust-embed's code reads from the disk")
)]
mod embedded {
    /// The files below `assets/`. A debug build reads them from the disk, so that reloading the page shows a change.
    #[derive(rust_embed::RustEmbed)]
    #[folder = "assets/"]
    pub(super) struct Assets;

    /// The pages of the guide, which the dashboard shows under Help: links to the files below `docs/`.
    #[derive(rust_embed::RustEmbed)]
    #[folder = "help/"]
    pub(super) struct Guide;
}

/// The Content-Security-Policy: the browser may load the daemon's own files, and pictures and sounds inside results. It
/// runs no inline script or style, allows no frames, and sends no form.
const CSP: &str = "default-src 'self'; img-src 'self' data: blob:; media-src 'self' data:; object-src 'none'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every answer.
const COMMON_HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_SECURITY_POLICY, CSP),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    // The browser asks each time, so that a new version never runs with old files. The `ETag` makes that cheap.
    (CACHE_CONTROL, "no-cache"),
];

/// Serves the page at `/` and its files below `/assets/`. A missing file is 404 and not the page: a missing script is
/// easier to understand than a script that turns out to be HTML.
pub(crate) fn router() -> Router {
    Router::new()
        .route("/", get(async |headers: HeaderMap| serve_file("index.html", &headers)))
        .route("/assets/{*path}", get(async |Path(path): Path<String>, headers: HeaderMap| serve_file(&path, &headers)))
}

/// Answers with the file, with 304 if the browser has it already, or with 404.
fn serve_file(path: &str, headers: &HeaderMap) -> Response<Body> {
    let Some(file) = find_file(path) else {
        return make_response(
            StatusCode::NOT_FOUND,
            "text/plain; charset=utf-8",
            None,
            "there is no such file\n".into(),
        );
    };
    let tag = etag(&file);
    let is_cached = headers.get_all(IF_NONE_MATCH).iter().any(|header| etag_matches(header, &tag));
    let (status, body) =
        if is_cached { (StatusCode::NOT_MODIFIED, Body::empty()) } else { (StatusCode::OK, file.data.into()) };
    make_response(status, content_type(path), Some(&tag), body)
}

/// The file `path` below `assets/`, or for `help/PAGE` that page of the guide.
fn find_file(path: &str) -> Option<EmbeddedFile> {
    match path.strip_prefix("help/") {
        Some(page) => Guide::get(page),
        None => Assets::get(path),
    }
}

/// Whether an `If-None-Match` names the tag (RFC 9110, 13.1.2: the comparison is weak).
fn etag_matches(header: &HeaderValue, tag: &str) -> bool {
    // A header that is not ASCII names no tag of this daemon.
    let header = header.to_str().unwrap_or_default();
    let mut known_tags = header.split(',').map(|known_tag| known_tag.trim().trim_start_matches("W/"));
    known_tags.any(|known_tag| known_tag == tag || known_tag == "*")
}

/// Makes an answer with the headers that every answer has.
fn make_response(status: StatusCode, content_type: &'static str, tag: Option<&str>, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.extend(COMMON_HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value))));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    if let Some(tag) = tag.and_then(|tag| HeaderValue::from_str(tag).ok()) {
        headers.insert(ETAG, tag);
    }
    response
}

/// The content's SHA-256, which rust-embed has computed already.
fn etag(file: &EmbeddedFile) -> String {
    format!("\"{}\"", HEXLOWER.encode(&file.metadata.sha256_hash()))
}

/// The media types of the files. With `nosniff`, a browser runs a script only if its type says so.
fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "md" => "text/markdown; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use axum::body::Body;
    use axum::http::header::{CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
    use axum::http::{Response, StatusCode};

    use super::{Assets, COMMON_HEADERS, Guide, etag, find_file, serve_file};

    fn text(path: &str) -> String {
        let file = Assets::get(path).unwrap_or_else(|| panic!("{path} is not there"));
        String::from_utf8(file.data.into_owned()).unwrap()
    }

    fn asked(path: &str) -> Response<Body> {
        serve_file(path, &HeaderMap::new())
    }

    #[test]
    fn vendored_files_have_the_hashes_that_are_recorded() {
        let table = text("vendor/HASHES");
        let written: BTreeMap<_, _> = table
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| {
                let words: Vec<_> = line.split_whitespace().collect();
                let [hash, file, package, _] = words[..] else { panic!("four words: {line}") };
                assert!(
                    package.rsplit_once('@').is_some_and(|(name, version)| !name.is_empty() && !version.is_empty())
                );
                (format!("vendor/{file}"), format!("\"{hash}\""))
            })
            .collect();
        let there: BTreeMap<_, _> = Assets::iter()
            .filter(|path| path.starts_with("vendor/") && !path.ends_with("HASHES") && !path.ends_with(".d.ts"))
            .map(|path| (path.to_string(), etag(&Assets::get(&path).unwrap())))
            .collect();
        assert_eq!(written, there, "crates/daemon/assets/vendor/HASHES says how to take other files");
    }

    #[test]
    fn a_file_comes_with_its_type_and_the_headers_that_guard_it() {
        let types = [
            ("index.html", "text/html; charset=utf-8"),
            ("app.js", "text/javascript; charset=utf-8"),
            ("style/base.css", "text/css; charset=utf-8"),
            ("icon.svg", "image/svg+xml"),
            ("vendor/HASHES", "text/plain; charset=utf-8"),
            ("help/start.md", "text/markdown; charset=utf-8"),
        ];
        for (path, kind) in types {
            let response = asked(path);
            assert_eq!(response.status(), StatusCode::OK, "{path}");
            assert_eq!(response.headers()[CONTENT_TYPE], kind, "{path}");
            for (name, value) in COMMON_HEADERS {
                assert_eq!(response.headers()[&name], value, "{path}: {name}");
            }
        }
    }

    #[test]
    fn a_missing_file_is_not_answered_with_the_page() {
        for path in [
            "",
            "missing.js",
            "../Cargo.toml",
            "..%2fCargo.toml",
            "/etc/passwd",
            "pages",
            "help/",
            "help/missing.md",
            "help/../app.js",
        ] {
            let response = asked(path);
            assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
            assert_eq!(response.headers()[CONTENT_TYPE], "text/plain; charset=utf-8", "{path}");
            assert_eq!(response.headers()["x-content-type-options"], "nosniff", "{path}");
        }
    }

    #[test]
    fn a_browser_with_the_current_file_does_not_get_it_again() {
        let tag = asked("app.js").headers()[ETAG].clone();
        let with = |known: &str| {
            let headers = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_str(known).unwrap())]);
            serve_file("app.js", &headers).status()
        };
        let tag = tag.to_str().unwrap();
        assert_eq!(with(tag), StatusCode::NOT_MODIFIED);
        assert_eq!(with(&format!("\"other\", W/{tag}")), StatusCode::NOT_MODIFIED);
        assert_eq!(with("\"other\""), StatusCode::OK);
    }

    #[test]
    fn every_page_that_the_summary_lists_is_under_help() {
        let summary = String::from_utf8(find_file("help/SUMMARY.md").unwrap().data.into_owned()).unwrap();
        let links = summary.split("](").skip(1).filter_map(|after| after.split(')').next());
        let listed: BTreeSet<_> = links.map(|link| link.rsplit('/').next().unwrap_or(link).to_owned()).collect();
        let there: BTreeSet<_> =
            Guide::iter().map(|path| path.to_string()).filter(|path| path != "SUMMARY.md").collect();
        assert!(listed.len() > 10, "the summary lists {listed:?}");
        assert_eq!(there, listed, "make a link in crates/daemon/help/ to each page of docs/SUMMARY.md");
    }

    /// Finds here what a browser would refuse because of `CSP`.
    #[test]
    fn the_page_needs_nothing_that_its_content_policy_forbids() {
        for path in Assets::iter().filter(|path| !path.starts_with("vendor/")) {
            let text = text(&path);
            let own =
                if path.ends_with(".svg") { text.replace("http://www.w3.org/2000/svg", "") } else { text.clone() };
            for bad in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "dangerouslySet", " style="]
            {
                assert!(!own.contains(bad), "{path} has {bad}");
            }
            let inline = text.matches("<script").count() - text.matches("<script type=\"module\" src=").count();
            assert_eq!(inline, 0, "{path} has a script without a file");
        }
    }

    #[test]
    fn every_import_and_every_file_of_the_page_is_there() {
        let mut reached = BTreeSet::new();
        let mut left = vec!["index.html".to_owned()];
        while let Some(path) = left.pop() {
            if reached.insert(path.clone()) {
                left.extend(named_in(&path, &text(&path)));
            }
        }
        let all: BTreeSet<_> = Assets::iter()
            .map(|path| path.to_string())
            .filter(|path| !path.ends_with(".d.ts") && !path.ends_with("HASHES") && !path.contains("/licences/"))
            .collect();
        assert_eq!(reached, all, "what the page loads, and what there is");
    }

    /// The files that a file names in `from "…"`, `src="…"` or `href="…"`, as paths below `assets/`.
    fn named_in(path: &str, text: &str) -> Vec<String> {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let names = ["from \"", "from\"", "src=\"./assets/", "href=\"./assets/"].into_iter().flat_map(|before| {
            let is_import = before.starts_with("from");
            text.split(before).skip(1).filter_map(move |after| {
                let name = after.split('"').next()?;
                match (is_import, name.starts_with('.')) {
                    (true, true) => Some(resolved(folder, name)),
                    (true, false) => None,
                    (false, _) => Some(name.to_owned()),
                }
            })
        });
        names.collect()
    }

    /// `./x` and `../x`, seen from a folder.
    fn resolved(folder: &str, name: &str) -> String {
        let mut parts: Vec<_> = folder.split('/').filter(|part| !part.is_empty()).collect();
        for part in name.split('/') {
            match part {
                "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        parts.join("/")
    }
}
