//! Names the model that answers in conversations, and the providers of models. The world that answers a request is a
//! host with its configuration, questions and events.

use axum::{Extension, Json};
use serde::Serialize;
use serde_json::{Value, json};
use toolrack_agent::model::provider::PROVIDERS;
use toolrack_config::Environment;
use utoipa::ToSchema;

use super::{JsonResult, WorldExtension};
use crate::world::NoModel;

/// The model that answers.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AnsweringModel {
    /// `provider/name`; `null` when there is no model.
    model: Option<String>,
    /// Why there is none.
    #[schema(value_type = Option<Object>)]
    error: Option<Value>,
    /// The providers that are known by name.
    providers: Vec<KnownProvider>,
}

/// A provider of models.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Provider)]
struct KnownProvider {
    /// The part before the slash in `provider/name`.
    name: &'static str,
    /// Whether it can be used: the variable with its key is set, or it needs none.
    usable: bool,
    /// The variable with its key; `null` if it needs none.
    key_variable: Option<&'static str>,
    /// Whether it runs on the machine of the daemon.
    local: bool,
    /// The model that it uses by default.
    default_model: Option<&'static str>,
}

/// Every provider, and whether the daemon has a key for it. The key itself is never shown.
fn providers(environment: &Environment) -> Vec<KnownProvider> {
    let is_set = |name: &str| environment.get(name).is_some_and(|value| !value.to_string_lossy().trim().is_empty());
    let providers = PROVIDERS.iter().map(|provider| KnownProvider {
        name: provider.name,
        usable: provider.key_variable.is_none_or(is_set),
        key_variable: provider.key_variable,
        local: provider.is_local(),
        default_model: provider.default_model,
    });
    providers.collect()
}

/// The model that would answer now, or the next step if there is none; and the other providers.
#[utoipa::path(get, path = "/api/v1/model", tag = "conversations", responses((status = 200, body = AnsweringModel)))]
pub(super) async fn model(Extension(world): WorldExtension) -> JsonResult<AnsweringModel> {
    let providers = providers(&world.environment);
    // No name is requested, so this is the configured model.
    let requested_name = None;
    Ok(Json(match (world.models)(requested_name, world.loaded()).await {
        Ok(chosen) => AnsweringModel { model: Some(chosen.model.name().to_owned()), error: None, providers },
        Err(NoModel { code, message, hint }) => {
            let error = json!({ "code": code, "message": message, "hint": hint });
            AnsweringModel { model: None, error: Some(error), providers }
        }
    }))
}
