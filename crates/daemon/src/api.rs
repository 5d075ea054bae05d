//! The control API: `/api/v1`, and what watches over daemons. The OpenAPI file is made from the functions here.

mod agents;
mod answers;
mod audit;
mod calls;
mod concealed;
mod config;
mod events;
mod health;
mod import;
mod models;
mod overview;
mod questions;
mod servers;
mod sessions;
mod sign_in;
mod tools;
mod trust;
mod turns;
mod within;

use std::sync::{Arc, Weak};

use axum::{
    Extension, Json, Router,
    extract::{FromRequest, Request, rejection::JsonRejection},
    http::StatusCode,
    middleware::map_response_with_state,
    response::{IntoResponse, Response},
    routing::get,
};
use serde::de::DeserializeOwned;
use utoipa::{
    Modify, OpenApi,
    openapi::{
        ContentBuilder, OpenApi as Document, Ref, ResponseBuilder,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{agents::Agents, error::ApiError, world::World};

/// The state that every handler gets.
type State = axum::extract::State<Arc<World>>;

/// What every handler returns.
type Answer<T> = Result<Json<T>, ApiError>;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Toolrack",
        description = "Steers a Toolrack daemon: its servers, their tools, questions that wait, trust, conversations."
    ),
    modifiers(&Secured),
    security(("token" = [])),
)]
struct Described;

/// The token as a security scheme of the description.
struct Secured;

impl Modify for Secured {
    fn modify(&self, document: &mut Document) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("The token of this launch, which `toolrack up` prints"));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme.build()));
    }
}

/// Statuses that any address can answer with, beside its own.
const USUAL: &[(&str, &str, bool)] = &[
    ("400", "The request cannot be understood", false),
    ("401", "The token is missing or wrong", false),
    ("403", "The request is not allowed", false),
    ("413", "The body is too large", true),
    ("415", "The body is not said to be JSON", true),
    ("429", "Too many requests", false),
    ("500", "Something failed here", false),
    ("503", "The daemon, or the world of an agent, is about to end", false),
];

/// The routes, and their description.
fn parts() -> (Router<Arc<World>>, Document) {
    let (router, mut document) = described().split_for_parts();
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            let has_body = operation.request_body.is_some();
            for (status, says, _) in USUAL.iter().filter(|(_, _, of_body)| has_body || !of_body) {
                let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("ApiError"))).build();
                let response = ResponseBuilder::new().description(*says).content("application/json", content);
                let responses = &mut operation.responses.responses;
                responses.entry((*status).to_owned()).or_insert_with(|| response.build().into());
            }
        }
    }
    (router, document)
}

fn described() -> OpenApiRouter<Arc<World>> {
    OpenApiRouter::with_openapi(Described::openapi())
        .routes(routes!(servers::list, servers::add))
        .routes(routes!(servers::get, servers::revise, servers::remove))
        .routes(routes!(servers::enable))
        .routes(routes!(servers::disable))
        .routes(routes!(servers::connect))
        .routes(routes!(servers::disconnect))
        .routes(routes!(servers::reconnect))
        .routes(routes!(servers::test))
        .routes(routes!(sign_in::begin, sign_in::get))
        .routes(routes!(sign_in::came_back))
        .routes(routes!(within::logs))
        .routes(routes!(within::resources))
        .routes(routes!(within::read))
        .routes(routes!(within::prompts))
        .routes(routes!(within::prompt))
        .routes(routes!(tools::list))
        .routes(routes!(tools::get))
        .routes(routes!(calls::call))
        .routes(routes!(calls::cancel))
        .routes(routes!(questions::list))
        .routes(routes!(questions::answer))
        .routes(routes!(answers::list, answers::forget))
        .routes(routes!(trust::list))
        .routes(routes!(trust::approve))
        .routes(routes!(trust::refuse))
        .routes(routes!(trust::revoke))
        .routes(routes!(trust::approve_tool))
        .routes(routes!(audit::list))
        .routes(routes!(sessions::list))
        .routes(routes!(sessions::get, sessions::delete))
        .routes(routes!(sessions::export))
        .routes(routes!(models::model))
        .routes(routes!(turns::begin))
        .routes(routes!(turns::cancel))
        .routes(routes!(config::get))
        .routes(routes!(config::reload))
        .routes(routes!(config::validate))
        .routes(routes!(import::list, import::take))
        .routes(routes!(events::stream))
        .routes(routes!(overview::get))
        .routes(routes!(health::health))
        .routes(routes!(health::ready))
        .routes(routes!(health::metrics))
        .routes(routes!(agents::list))
        .routes(routes!(agents::token))
        .routes(routes!(agents::stop))
        .routes(routes!(servers::states))
        .routes(routes!(servers::reconnect_named))
}

/// The description of the control API: OpenAPI 3.1, as JSON. The same as at `/openapi.json`.
#[must_use]
pub fn openapi() -> String {
    let (_, document) = parts();
    document.to_pretty_json().unwrap_or_default()
}

/// All routes, without the secrets of `world`.
pub(crate) fn router(world: Arc<World>, agents: Weak<Agents>) -> Router {
    let (router, document) = parts();
    let description = document.to_pretty_json().unwrap_or_default();
    let document = move || async move { ([("content-type", "application/json")], description) };
    router
        .layer(map_response_with_state(Arc::clone(&world), concealed::answer))
        .route("/openapi.json", get(document))
        .fallback(async || ApiError::new(StatusCode::NOT_FOUND, "NOT_FOUND", "there is nothing at this address"))
        .method_not_allowed_fallback(async || {
            let message = "this address has no such method";
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", message)
                .hint("/openapi.json tells which ones it has")
        })
        .layer(Extension(agents))
        .with_state(world)
}

/// A body of JSON; anything else is an error that says where.
struct Body<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match Json::from_request(request, state).await {
            Ok(Json(body)) => Ok(Self(body)),
            Err(rejection) => Err(unreadable(&rejection)),
        }
    }
}

fn unreadable(rejection: &JsonRejection) -> ApiError {
    let (status, code) = match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => (StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE"),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "NOT_JSON"),
        _ => (StatusCode::BAD_REQUEST, "BAD_BODY"),
    };
    ApiError::new(status, code, rejection.body_text())
}

/// The query of an address; anything else is an error that says where.
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

/// The parts of a path; anything else is an error.
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

/// The answer to a caller that cancels work by its name.
fn cancelled(was_running: bool) -> Result<Response, ApiError> {
    match was_running {
        true => Ok(done()),
        false => Err(ApiError::not_found("nothing of this id is under way")),
    }
}

/// Success without a body.
fn done() -> Response {
    StatusCode::NO_CONTENT.into_response()
}
