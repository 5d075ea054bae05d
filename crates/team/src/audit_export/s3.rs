//! Writes objects into a bucket of S3.
//!
//! The exporter writes each object with `If-None-Match: *`, so that the service itself refuses to overwrite an object.
//! To test this, the exporter sends its first object twice. A service that accepts the object again ignores the header,
//! and the exporter does not use that service.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::StatusCode;
use reqwest::{Client, Method, RequestBuilder, Response, redirect};
use rusty_s3::{Bucket, Credentials, S3Action as _, UrlStyle};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use toolrack_host::{
    egress::Egress,
    text::{clip, for_line, root_cause},
};
use url::Url;

use super::{
    object_store::{ObjectStore, ObjectStoreError},
    rounds::TIMEOUT,
};
use crate::file::{AuditExportTable, ExportTarget, S3Table};

/// How long a signed request is valid. S3 allows the clocks to differ by up to this time.
const SIGNED_FOR: Duration = Duration::from_mins(15);

/// The maximum number of bytes that are read of an answer that says why the service refused a request.
const MAX_ANSWER: usize = 16 * 1024;

/// The maximum number of bytes of the service's error code that an error shows.
const MAX_CODE: usize = 64;

/// The credentials with which the exporter signs its requests to the service.
pub struct S3Credentials {
    /// The id of the access key.
    pub access_key_id: String,
    /// The access key itself.
    pub secret_access_key: String,
    /// The token of temporary credentials.
    pub session_token: Option<String>,
}

/// Shows nothing of the credentials.
impl fmt::Debug for S3Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Credentials").finish_non_exhaustive()
    }
}

/// Reads the credentials. Each round reads them again, because they may have changed. The error says why that fails,
/// and contains no secret.
pub type ReadS3Credentials = Box<dyn Fn() -> BoxFuture<'static, Result<S3Credentials, String>> + Send + Sync>;

/// A bucket of AWS or of another service that speaks S3 and knows conditional writes.
///
/// The client follows no redirects, and connects only where the egress rules allow this. No request takes longer than
/// `timeout` of the table. Dropping a future cancels its request, but the service may have carried the request out
/// already.
pub struct S3Store {
    bucket: Bucket,
    prefix: String,
    client: Client,
    credentials_source: ReadS3Credentials,
    /// The credentials that were read last.
    credentials: watch::Sender<Option<Arc<Credentials>>>,
    /// Whether the service has shown that it refuses to overwrite an object.
    refuses_overwrite: AtomicBool,
}

impl fmt::Debug for S3Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = self.bucket.base_url().as_str();
        f.debug_struct("S3Store").field("bucket", &base).field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// The outcome of a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteOutcome {
    /// The service has written the object.
    Created,
    /// The service has an object of that name already, and has not changed it.
    Existed,
}

impl S3Store {
    /// Creates the object store for the bucket of `table`, reached by the rules of `egress`, with the credentials that
    /// `read_credentials` returns.
    ///
    /// # Errors
    /// [`ObjectStoreError::Refused`] if the table names no bucket, or one at an address that cannot be used.
    pub fn new(
        table: &AuditExportTable,
        egress: &Egress,
        read_credentials: ReadS3Credentials,
    ) -> Result<Self, ObjectStoreError> {
        let (ExportTarget::Bucket { bucket, prefix }, Some(s3)) = (&table.to, &table.s3) else {
            return Err(refused("`to` of `[audit_export]` names no bucket"));
        };
        let unusable = |error: &dyn fmt::Display| refused(format!("the bucket `{bucket}` cannot be used: {error}"));
        let bucket = bucket_of(s3, bucket).map_err(|error| unusable(&error))?;
        // The operator configured the bucket, so it may be wherever the egress rules allow.
        let guard = egress.guard_for_configured();
        guard.check(bucket.base_url()).map_err(|refused| unusable(&format!("{refused}; {}", refused.hint())))?;
        let time_limit = table.timeout.unwrap_or(TIMEOUT);
        let builder = Client::builder()
            .connect_timeout(time_limit)
            .timeout(time_limit)
            .redirect(redirect::Policy::none())
            .user_agent(concat!("toolrack/", env!("CARGO_PKG_VERSION")));
        let client = guard.client(builder).map_err(|error| unusable(&error.without_url()))?;
        let (prefix, credentials) = (prefix.clone(), watch::Sender::default());
        let refuses_overwrite = AtomicBool::new(false);
        Ok(Self { bucket, prefix, client, credentials_source: read_credentials, credentials, refuses_overwrite })
    }

    /// Returns the key of the object `name` in the bucket.
    fn key(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}/{name}", self.prefix) }
    }

    /// Returns the credentials that were read last. Reads them if none were read yet.
    async fn credentials(&self) -> Result<Arc<Credentials>, ObjectStoreError> {
        let credentials = self.credentials.borrow().clone();
        match credentials {
            Some(credentials) => Ok(credentials),
            None => self.read_credentials().await,
        }
    }

    async fn read_credentials(&self) -> Result<Arc<Credentials>, ObjectStoreError> {
        let s3_credentials = (self.credentials_source)().await.map_err(refused)?;
        // A value that a person has put into a file often ends with a line break.
        let [id, key] = [&s3_credentials.access_key_id, &s3_credentials.secret_access_key].map(|text| text.trim());
        for (field, value) in [("access_key_id", id), ("secret_access_key", key)] {
            if value.is_empty() {
                return Err(refused(format!("`{field}` of `[audit_export.s3]` is empty")));
            }
        }
        let credentials = Arc::new(match s3_credentials.session_token.as_deref().map(str::trim) {
            Some(token) => Credentials::new_with_token(id, key, token),
            None => Credentials::new(id, key),
        });
        self.credentials.send_replace(Some(Arc::clone(&credentials)));
        Ok(credentials)
    }

    /// Writes an object, if there is none of this name. Until the service has shown that it refuses to overwrite
    /// objects, sends the object twice.
    async fn write(&self, name: &str, content: &Bytes) -> Result<(), ObjectStoreError> {
        let mut outcome = self.create(name, content).await?;
        if outcome == WriteOutcome::Created && !self.refuses_overwrite.load(Ordering::Relaxed) {
            outcome = self.create(name, content).await?;
            if outcome == WriteOutcome::Created {
                return Err(refused(format!(
                    "{} ignores `If-None-Match`, so that objects could be overwritten there: name a service that knows \
                     conditional writes in `[audit_export]`",
                    self.service()
                )));
            }
        }
        if outcome == WriteOutcome::Existed {
            self.refuses_overwrite.store(true, Ordering::Relaxed);
            return self.compare(name, content).await;
        }
        Ok(())
    }

    /// Sends an object that the service writes only if it has none of this name.
    async fn create(&self, name: &str, content: &Bytes) -> Result<WriteOutcome, ObjectStoreError> {
        let checksum = STANDARD.encode(Sha256::digest(content));
        // The signature covers these headers. The service compares the checksum with what arrives; a bucket with Object
        // Lock requires one.
        let headers =
            [("if-none-match", "*"), ("x-amz-checksum-sha256", &checksum), ("x-amz-sdk-checksum-algorithm", "SHA256")];
        let (key, credentials) = (self.key(name), self.credentials().await?);
        let mut action = self.bucket.put_object(Some(&credentials), &key);
        headers.iter().for_each(|(header, value)| action.headers_mut().insert(*header, *value));
        let request = self.client.request(Method::PUT, action.sign(SIGNED_FOR)).body(content.clone());
        let request = headers.iter().fold(request, |request, (header, value)| request.header(*header, *value));
        let mut response = self.send(request).await?;
        match response.status() {
            status if status.is_success() => Ok(WriteOutcome::Created),
            StatusCode::PRECONDITION_FAILED => Ok(WriteOutcome::Existed),
            _ => Err(self.error_of(&mut response, &format!("to write {name}")).await),
        }
    }

    /// Compares the object of this name with `content`. Fails if they differ.
    async fn compare(&self, name: &str, content: &Bytes) -> Result<(), ObjectStoreError> {
        let (key, credentials) = (self.key(name), self.credentials().await?);
        let url = self.bucket.get_object(Some(&credentials), &key).sign(SIGNED_FOR);
        let mut response = self.send(self.client.request(Method::GET, url)).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => {
                let service = self.service();
                return Err(failed(format!("{service} said that it has an object {name}, but has none to read")));
            }
            _ => return Err(self.error_of(&mut response, &format!("to read {name}, which is there already")).await),
        }
        // One byte more than `content` has is enough to see that the object is longer.
        let existing = self.read_body(&mut response, content.len() + 1).await?;
        if existing == **content { Ok(()) } else { Err(ObjectStoreError::Occupied { name: name.to_owned() }) }
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, ObjectStoreError> {
        request.send().await.map_err(|error| self.unreachable(error))
    }

    /// Reads at most `max_bytes` bytes of the body of an answer, and leaves the rest.
    async fn read_body(&self, response: &mut Response, max_bytes: usize) -> Result<Vec<u8>, ObjectStoreError> {
        let mut body = Vec::new();
        while body.len() < max_bytes
            && let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(error))?
        {
            body.extend_from_slice(&chunk[..chunk.len().min(max_bytes - body.len())]);
        }
        Ok(body)
    }

    /// Returns the error for an answer that refuses or fails a request. `request` describes the request, such as "to
    /// write NAME".
    async fn error_of(&self, response: &mut Response, request: &str) -> ObjectStoreError {
        let status = response.status();
        let body = match self.read_body(response, MAX_ANSWER).await {
            Ok(body) => body,
            Err(error) => return error,
        };
        let code = error_code(&body).unwrap_or_default();
        let shown_error = match for_line(&clip(&code, MAX_CODE)).as_ref() {
            "" => status.as_u16().to_string(),
            code => format!("{} {code}", status.as_u16()),
        };
        let service = self.service();
        match next_step(status, &code) {
            Some(step) => refused(format!("{service} refuses {request} ({shown_error}): {step}")),
            None => failed(format!("{service} fails {request} ({shown_error})")),
        }
    }

    /// Returns the error for a request that got no answer, or only a part of one.
    fn unreachable(&self, error: reqwest::Error) -> ObjectStoreError {
        let service = self.service();
        if error.is_timeout() {
            return failed(format!("{service} does not answer in time (`timeout` of `[audit_export]`)"));
        }
        // The URL contains the signature, which is a secret.
        let why = root_cause(&error.without_url());
        failed(format!("{service} cannot be reached: {}", for_line(&clip(&why, 256))))
    }

    /// Returns the address of the service, for messages.
    fn service(&self) -> String {
        self.bucket.base_url().origin().ascii_serialization()
    }
}

impl ObjectStore for S3Store {
    fn begin_round(&self) -> BoxFuture<'_, Result<(), ObjectStoreError>> {
        Box::pin(async { self.read_credentials().await.map(|_| ()) })
    }

    fn put<'a>(&'a self, name: &'a str, content: Bytes) -> BoxFuture<'a, Result<(), ObjectStoreError>> {
        Box::pin(async move { self.write(name, &content).await })
    }
}

fn refused(why: impl Into<String>) -> ObjectStoreError {
    ObjectStoreError::Refused { why: why.into() }
}

fn failed(why: String) -> ObjectStoreError {
    ObjectStoreError::Failed { why }
}

/// Returns the bucket at the endpoint of the table, or at AWS.
fn bucket_of(s3: &S3Table, name: &str) -> Result<Bucket, String> {
    let region = s3.region.clone().unwrap_or_else(|| S3Table::DEFAULT_REGION.to_owned());
    let (endpoint, style) = match &s3.endpoint {
        Some(endpoint) => (Ok(endpoint.clone()), UrlStyle::Path),
        None => {
            // The certificate of AWS covers only one label before the host. So a bucket's name with a dot cannot be a
            // part of the host's name.
            let style = if name.contains('.') { UrlStyle::Path } else { UrlStyle::VirtualHost };
            (Url::parse(&format!("https://s3.{region}.amazonaws.com")), style)
        }
    };
    let endpoint = endpoint.map_err(|error| error.to_string())?;
    Bucket::new(endpoint, style, name.to_owned(), region).map_err(|error| error.to_string())
}

/// Returns the code that the XML of an error names (`<Error><Code>NoSuchBucket</Code>…`). It is untrusted text of the
/// service.
fn error_code(body: &[u8]) -> Option<String> {
    let body = String::from_utf8_lossy(body);
    let (_, rest) = body.split_once("<Code>")?;
    rest.split_once("</Code>").map(|(code, _)| code.trim().to_owned())
}

/// Returns the operator's next step after an error. `None` if the error is temporary, so that the exporter tries again.
fn next_step(status: StatusCode, code: &str) -> Option<&'static str> {
    let is_temporary = status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED
        // S3 answers 307 while the address of a new bucket is not known everywhere, and 409 when another write of the
        // same object is under way.
        || matches!(status.as_u16(), 307 | 408 | 409 | 425 | 429)
        || matches!(code, "RequestTimeout" | "SlowDown");
    if is_temporary {
        return None;
    }
    Some(match (code, status.as_u16()) {
        ("RequestTimeTooSkewed", _) => "set the clock of this machine",
        ("ExpiredToken" | "TokenRefreshRequired", _) => {
            "the temporary credentials have expired: give new ones, with their `session_token`, to `[audit_export.s3]`"
        }
        ("InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken", _) => {
            "check `access_key_id`, `secret_access_key`, `session_token` and `region` of `[audit_export.s3]`"
        }
        (_, 501) => "it does not know conditional writes (`If-None-Match`): name another service in `[audit_export]`",
        (_, 401 | 403) => {
            "the access key of `[audit_export.s3]` needs the rights s3:PutObject and s3:GetObject for these objects"
        }
        (_, 404) => "make the bucket, or correct `to`, and `endpoint` and `region` of `[audit_export.s3]`",
        _ => "check `to` of `[audit_export]`, and `endpoint` and `region` of `[audit_export.s3]`",
    })
}

#[cfg(test)]
mod tests;
