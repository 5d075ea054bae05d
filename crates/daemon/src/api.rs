//! The control API: `/api/v1`, and the addresses for programs that monitor daemons. Its OpenAPI description is
//! generated from the functions in the modules below.

mod access;
mod agents;
mod answers;
mod audit;
mod calls;
mod concealed;
mod config;
mod events;
mod health;
mod import;
mod me;
mod members;
mod metrics;
mod models;
mod my_credentials;
mod my_servers;
mod overview;
mod profiles;
mod questions;
mod quotas;
mod server_contents;
mod server_edits;
mod servers;
mod sessions;
mod sign_in;
mod tools;
mod trust;
mod turns;

use std::sync::{Arc, LazyLock};

use axum::{
    Extension, Json, Router,
    extract::{FromRequest, Request, rejection::JsonRejection},
    http::{StatusCode, header::USER_AGENT},
    middleware::from_fn,
    response::{IntoResponse, Response},
    routing::get,
};
use serde::de::DeserializeOwned;
use toolrack_host::{Caller, Principal, Way};
use utoipa::{
    Modify, OpenApi,
    openapi::{
        ContentBuilder, OpenApi as Document, Ref, ResponseBuilder,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) use self::health::ending_router;
pub use self::metrics::{Metric, MetricKind, MetricValue, Metrics};
use crate::{error::ApiError, rights::Right, routes::Routes, tenant_members::AnsweringWorld, world::World};

/// The maximum size of the body of a request, in bytes.
pub(crate) const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// The world (a host with its configuration, questions and events) that answers a request, from the extensions of the
/// request.
type WorldExtension = Extension<Arc<World>>;

/// The result of a handler that answers with JSON.
type JsonResult<T> = Result<Json<T>, ApiError>;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Toolrack",
        description = "Steers a Toolrack daemon: its servers, their tools, questions that wait, trust, conversations."
    ),
    modifiers(&SecurityAddon),
    security(("token" = [])),
)]
struct ApiDoc;

/// The token as a security scheme of the description.
struct SecurityAddon;

impl Modify for SecurityAddon {
    fn modify(&self, document: &mut Document) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("The token of this launch, which `toolrack up` prints"));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme.build()));
    }
}

/// The statuses that every route can answer with, in addition to its own: the status, its description, and whether only
/// routes that read a body can answer with it.
const COMMON_ANSWERS: &[(&str, &str, bool)] = &[
    ("400", "The request cannot be understood", false),
    ("401", "The token is missing or wrong", false),
    ("403", "The request is not allowed", false),
    ("413", "The body is too large", true),
    ("415", "The `Content-Type` is not `application/json`", true),
    ("429", "Too many requests", false),
    ("500", "Something failed here", false),
    ("503", "The daemon, or the world of an agent, is about to end", false),
];

/// The routes, and their description as JSON.
struct Api {
    router: Router,
    description: String,
}

static API: LazyLock<Api> = LazyLock::new(|| {
    let (router, document) = router_and_document();
    // Cannot fail: the description consists of texts, lists and maps with texts as keys.
    Api { router, description: document.to_pretty_json().unwrap_or_default() }
});

/// The routes, and their description.
fn router_and_document() -> (Router, Document) {
    let (router, mut document) = all_routes().split_for_parts();
    for item in document.paths.paths.values_mut() {
        // The API has no other methods.
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            let has_body = operation.request_body.is_some();
            for (status, description, _) in
                COMMON_ANSWERS.iter().filter(|(_, _, only_with_body)| has_body || !only_with_body)
            {
                let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("ApiError"))).build();
                let response = ResponseBuilder::new().description(*description).content("application/json", content);
                let responses = &mut operation.responses.responses;
                responses.entry((*status).to_owned()).or_insert_with(|| response.build().into());
            }
        }
    }
    (router, document)
}

fn all_routes() -> OpenApiRouter {
    let routes = Routes::new(ApiDoc::openapi());
    with_daemon(with_decisions(with_users(with_servers(routes)))).into_inner()
}

/// Adds the routes of servers, of what they offer, and of calls of their tools.
fn with_servers(routes: Routes<()>) -> Routes<()> {
    use AnsweringWorld::{Member, Server, Tenant};
    use Right::{Install, Operate, See, Use};
    routes
        .with(See, Member, routes!(servers::list))
        .with(See, Member, routes!(servers::get))
        .with(See, Member, routes!(servers::states))
        .with(Install, Tenant, routes!(server_edits::add))
        .with(Install, Server, routes!(server_edits::revise, server_edits::remove))
        .with(Operate, Server, routes!(server_edits::enable))
        .with(Operate, Server, routes!(server_edits::disable))
        .with(Use, Server, routes!(servers::connect))
        .with(Use, Server, routes!(servers::disconnect))
        .with(Use, Server, routes!(servers::reconnect))
        .with(Use, Member, routes!(servers::reconnect_named))
        .with(Operate, Server, routes!(servers::test))
        .with(Operate, Server, routes!(sign_in::begin, sign_in::get))
        .with(Operate, Server, routes!(sign_in::came_back))
        .with(Operate, Member, routes!(server_contents::logs))
        .with(See, Member, routes!(server_contents::resources))
        .with(Use, Member, routes!(server_contents::read))
        .with(See, Member, routes!(server_contents::prompts))
        .with(Use, Member, routes!(server_contents::prompt))
        .with(See, Member, routes!(tools::list))
        .with(See, Member, routes!(tools::get))
        .with(Use, Member, routes!(calls::call))
        .with(Use, Member, routes!(calls::cancel))
}

/// Adds the routes of questions to users, and of what users manage for themselves and for their tenant.
fn with_users(routes: Routes<()>) -> Routes<()> {
    use AnsweringWorld::{Member, Tenant};
    use Right::{Administer, See, Use};
    routes
        .with(Use, Tenant, routes!(questions::list))
        .with(Use, Tenant, routes!(questions::answer))
        .with(See, Member, routes!(my_credentials::list))
        .with(Use, Member, routes!(my_credentials::give, my_credentials::take_back))
        .with(See, Tenant, routes!(my_servers::list))
        .with(Use, Tenant, routes!(my_servers::add, my_servers::remove))
        .with(Use, Tenant, routes!(access::list, access::make))
        .with(Use, Tenant, routes!(access::revoke))
        .with(Use, Tenant, routes!(access::sign_out))
        .with(Use, Tenant, routes!(access::clients))
        .with(Use, Tenant, routes!(access::end_client))
        .with(Administer, Tenant, routes!(members::list))
        .with(Administer, Tenant, routes!(members::change, members::remove))
        .with(Administer, Tenant, routes!(members::tokens))
        .with(Administer, Tenant, routes!(members::revoke_token))
        .with(Administer, Tenant, routes!(members::clients))
        .with(Administer, Tenant, routes!(members::end_client))
}

/// Adds the routes of users' decisions, and of the audit log.
fn with_decisions(routes: Routes<()>) -> Routes<()> {
    use AnsweringWorld::{Member, Tenant};
    use Right::{Audit, Install, Operate, See, Use};
    routes
        .with(See, Member, routes!(answers::list))
        .with(Use, Member, routes!(answers::forget))
        .with(See, Tenant, routes!(trust::list))
        .with(Install, Tenant, routes!(trust::approve))
        .with(Install, Tenant, routes!(trust::refuse))
        .with(Install, Tenant, routes!(trust::revoke))
        .with(Operate, Tenant, routes!(trust::approve_tool))
        .with(Audit, Tenant, routes!(audit::list))
}

/// Adds the routes of conversations, of the configuration, and of the daemon itself.
fn with_daemon(routes: Routes<()>) -> Routes<()> {
    use AnsweringWorld::{Member, Tenant};
    use Right::{Install, Open, Operate, Scrape, See, Use};
    routes
        .with(Use, Member, routes!(sessions::list))
        .with(Use, Member, routes!(sessions::get, sessions::delete))
        .with(Use, Member, routes!(sessions::export))
        .with(Use, Member, routes!(turns::begin))
        .with(Use, Member, routes!(turns::cancel))
        .with(See, Tenant, routes!(models::model))
        .with(Operate, Tenant, routes!(config::get))
        .with(Operate, Tenant, routes!(config::reload))
        .with(Operate, Tenant, routes!(config::validate))
        .with(Install, Tenant, routes!(import::list, import::take))
        .with(See, Member, routes!(events::stream))
        .with(See, Member, routes!(overview::get))
        .with(See, Tenant, routes!(me::get))
        .with(See, Tenant, routes!(quotas::list))
        .with(Open, Tenant, routes!(health::health))
        .with(Open, Tenant, routes!(health::ready))
        .with(Scrape, Tenant, routes!(health::metrics))
        .with(See, Member, routes!(profiles::list))
        .with(Operate, Tenant, routes!(agents::list))
        .with(Install, Tenant, routes!(agents::token))
        .with(Operate, Tenant, routes!(agents::stop))
}

/// The description of the control API: OpenAPI 3.1, as JSON. The same as at `/openapi.json`.
#[must_use]
pub fn openapi() -> String {
    API.description.clone()
}

/// All routes. The extensions of a request must hold the world that answers it, an `Arc<World>`, and that world's
/// [agents](agents::AgentsExtension). Answers contain no secrets of that world.
pub(crate) fn router() -> Router {
    let document = async || ([("content-type", "application/json")], API.description.as_str());
    API.router
        .clone()
        // Covers only the routes above: the answers below contain no data of a world.
        .layer(from_fn(concealed::conceal_answer))
        .route("/openapi.json", get(document))
        .fallback(async || ApiError::no_route())
        .method_not_allowed_fallback(async || {
            let message = "this address has no such method";
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", message)
                .hint("/openapi.json lists its methods")
        })
}

/// A JSON body. Anything else is an error that says where the mistake is.
struct Body<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match Json::from_request(request, state).await {
            Ok(Json(body)) => Ok(Self(body)),
            Err(rejection) => Err(bad_body(&rejection)),
        }
    }
}

/// The error for a body that is not the expected JSON.
fn bad_body(rejection: &JsonRejection) -> ApiError {
    let (status, code) = match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => (StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE"),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "NOT_JSON"),
        _ => (StatusCode::BAD_REQUEST, "BAD_BODY"),
    };
    // axum's text does not say what the limit is.
    let message = match status {
        StatusCode::PAYLOAD_TOO_LARGE => format!("the body is larger than {MAX_BODY_BYTES} bytes"),
        _ => rejection.body_text(),
    };
    ApiError::new(status, code, message)
}

/// The query of a URL. A query that cannot be read is an error that says where the mistake is.
struct Query<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> axum::extract::FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut http::request::Parts, state: &S) -> Result<Self, ApiError> {
        match axum::extract::Query::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(query)) => Ok(Self(query)),
            Err(rejection) => Err(ApiError::new(StatusCode::BAD_REQUEST, "BAD_QUERY", rejection.body_text())),
        }
    }
}

/// The parameters of a path. A path that cannot be read is an error.
struct Path<T>(T);

impl<T: DeserializeOwned + Send, S: Send + Sync> axum::extract::FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut http::request::Parts, state: &S) -> Result<Self, ApiError> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(path)) => Ok(Self(path)),
            Err(rejection) => Err(ApiError::new(StatusCode::BAD_REQUEST, "BAD_PATH", rejection.body_text())),
        }
    }
}

/// The sender of a request to the control API. The client's name is the `User-Agent`. Browsers are all called
/// `a browser`, because their `User-Agent`s hardly differ.
struct SentBy(Caller);

impl<S: Send + Sync> axum::extract::FromRequestParts<S> for SentBy {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut http::request::Parts, _: &S) -> Result<Self, ApiError> {
        let world = parts.extensions.get::<Arc<World>>().ok_or_else(|| ApiError::internal("no world answers here"))?;
        let principal = parts.extensions.get::<Principal>().cloned().ok_or_else(ApiError::no_principal)?;
        let caller = world.questions.caller(principal, Way::Daemon);
        Ok(Self(match parts.headers.get(USER_AGENT).and_then(|user_agent| user_agent.to_str().ok()) {
            Some(user_agent) if user_agent.starts_with("Mozilla/") => caller.with_client("a browser"),
            Some(user_agent) => caller.with_client(user_agent),
            None => caller,
        }))
    }
}

/// The answer to a caller that cancels a call or turn.
fn cancel_response(was_running: bool) -> Result<Response, ApiError> {
    match was_running {
        true => Ok(no_content()),
        false => Err(ApiError::not_found("no call or turn with this id is under way")),
    }
}

/// Success without a body.
fn no_content() -> Response {
    StatusCode::NO_CONTENT.into_response()
}
