//! A browser for tests: it keeps cookies, and follows redirects only on request.

use std::collections::BTreeMap;

use reqwest::{Client, Method, RequestBuilder, StatusCode, redirect};
use url::Url;

pub(crate) struct Browser {
    client: Client,
    /// The values of cookies, by their host and port, and by their name.
    cookies: BTreeMap<(String, String), String>,
    /// Headers that are sent with each request.
    pub(crate) headers: Vec<(&'static str, String)>,
}

pub(crate) struct Answer {
    pub(crate) url: Url,
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    /// The address to which the answer redirects.
    pub(crate) fn location(&self) -> Option<Url> {
        let place = self.headers.get("location")?.to_str().unwrap();
        Some(self.url.join(place).unwrap())
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The `error` of an answer to a client.
    pub(crate) fn error(&self) -> String {
        self.json()["error"].as_str().unwrap_or_default().to_owned()
    }

    /// The value of a hidden field of the form in the answer.
    pub(crate) fn field(&self, name: &str) -> String {
        let (_, rest) = self.body.split_once(&format!("name=\"{name}\" value=\"")).unwrap_or_else(|| {
            panic!("no field {name} in {} {}", self.status, self.body);
        });
        let (value, _) = rest.split_once('"').unwrap();
        value.replace("&amp;", "&").replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">")
    }
}

/// A parameter of an address.
pub(crate) fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(own, _)| own == name).map(|(_, value)| value.into_owned())
}

impl Browser {
    pub(crate) fn new() -> Self {
        let client = Client::builder().redirect(redirect::Policy::none()).no_proxy().build().unwrap();
        Self { client, cookies: BTreeMap::new(), headers: Vec::new() }
    }

    pub(crate) fn cookie(&self, at: &Url, name: &str) -> Option<&str> {
        self.cookies.get(&(at.authority().to_owned(), name.to_owned())).map(String::as_str)
    }

    pub(crate) fn set_cookie(&mut self, at: &Url, name: &str, value: &str) {
        self.cookies.insert((at.authority().to_owned(), name.to_owned()), value.to_owned());
    }

    pub(crate) async fn get(&mut self, url: &Url) -> Answer {
        let request = self.client.request(Method::GET, url.clone());
        self.send(url, request).await
    }

    pub(crate) async fn post(&mut self, url: &Url, form: &[(&str, &str)]) -> Answer {
        let body: String = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = self.client.request(Method::POST, url.clone()).body(body);
        self.send(url, request.header("content-type", "application/x-www-form-urlencoded")).await
    }

    pub(crate) async fn post_json(&mut self, url: &Url, body: &serde_json::Value) -> Answer {
        let request = self.client.request(Method::POST, url.clone()).body(body.to_string());
        self.send(url, request.header("content-type", "application/json")).await
    }

    /// Follows redirects until there is none, or one leads to an address that begins with `until`.
    pub(crate) async fn follow(&mut self, url: &Url, until: &str) -> Answer {
        let mut answer = self.get(url).await;
        for _ in 0..20 {
            match answer.location() {
                Some(next) if !next.as_str().starts_with(until) => answer = self.get(&next).await,
                _ => return answer,
            }
        }
        panic!("redirects without end, the last to {:?}", answer.location());
    }

    async fn send(&mut self, url: &Url, mut request: RequestBuilder) -> Answer {
        let own = self.cookies.iter().filter(|((at, _), _)| at == url.authority());
        let line: Vec<_> = own.map(|((_, name), value)| format!("{name}={value}")).collect();
        if !line.is_empty() {
            request = request.header("cookie", line.join("; "));
        }
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        for line in headers.get_all("set-cookie") {
            let pair = line.to_str().unwrap().split(';').next().unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            let key = (url.authority().to_owned(), name.to_owned());
            if value.is_empty() {
                self.cookies.remove(&key)
            } else {
                self.cookies.insert(key, value.to_owned())
            };
        }
        Answer { url: url.clone(), status, headers, body: response.text().await.unwrap() }
    }
}
