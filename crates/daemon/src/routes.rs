//! Builds routes, each with the right that it needs and the world that answers members. A world is a host with its
//! configuration, questions and events: a tenant of a team has one, and so has each member with servers of their own.
//!
//! A route is declared with [`Routes::with`], which demands both; there is no other way to declare a route.

use axum::{
    extract::Request,
    http::{Extensions, StatusCode},
    middleware::{Next, from_fn},
    response::{IntoResponse as _, Response},
};
use serde_json::json;
use toolrack_host::Principal;
use utoipa::openapi::{OpenApi as Document, RefOr, Schema, extensions::Extensions as OperationExtensions};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::{error::ApiError, rights::Right, tenant_members::AnsweringWorld};

/// Refuses a request whose principal lacks this right.
fn check_request(right: Right, extensions: &Extensions) -> Result<(), ApiError> {
    if right == Right::Open {
        return Ok(());
    }
    check_right(right, extensions.get::<Principal>().ok_or_else(ApiError::no_principal)?)
}

/// Refuses a principal that lacks this right.
pub(crate) fn check_right(right: Right, principal: &Principal) -> Result<(), ApiError> {
    if right.is_held_by(principal) {
        return Ok(());
    }
    let (word, role) = (right.word(), principal.role().word());
    let (message, hint) = match right {
        Right::Install => (
            format!("this needs the right `{word}`, which only the user of the daemon's machine has"),
            "ask the operator of the daemon, who changes the files of your tenant",
        ),
        _ => (
            format!("this needs the right `{word}`, which the role `{role}` lacks"),
            "an administrator of the tenant gives roles",
        ),
    };
    Err(ApiError::new(StatusCode::FORBIDDEN, "NO_RIGHT", message).hint(hint))
}

/// Passes a request on if its principal has `right`, and refuses it if not.
pub(crate) async fn require_right(right: Right, request: Request, next: Next) -> Response {
    match check_request(right, request.extensions()) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

/// A schema of the OpenAPI description, with its name.
type NamedSchema = (String, RefOr<Schema>);

/// Routes with their rights, and their OpenAPI description.
pub(crate) struct Routes<S>(OpenApiRouter<S>);

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    pub(crate) fn new(document: Document) -> Self {
        Self(OpenApiRouter::with_openapi(document))
    }

    /// Adds routes that need `right`, which is added to their descriptions. `world` answers the requests of members.
    pub(crate) fn with(
        self,
        right: Right,
        world: AnsweringWorld,
        (schemas, mut paths, methods): UtoipaMethodRouter<S>,
    ) -> Self {
        let names_server = |path: &String| path.split('/').any(|segment| segment == "{name}");
        debug_assert!(
            world != AnsweringWorld::Server || paths.paths.keys().all(names_server),
            "the world of which server answers {:?}?",
            paths.paths.keys(),
        );
        debug_assert_eq!(self.clashing_schema(&schemas), None, "two types have this name in the description");
        for item in paths.paths.values_mut() {
            // The API has no other methods.
            let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete];
            for operation in operations.into_iter().flatten() {
                let right_extension = OperationExtensions::builder().add("x-right", json!(right.word())).build();
                operation.extensions.get_or_insert_default().merge(right_extension);
            }
        }
        let methods = methods.layer(from_fn(move |request: Request, next: Next| require_right(right, request, next)));
        Self(self.0.routes((schemas, paths, world.layer(methods))))
    }

    /// The name of a schema that differs from another schema of the same name. The description would keep only one of
    /// them.
    fn clashing_schema(&self, schemas: &[NamedSchema]) -> Option<String> {
        let existing_schemas = self.0.get_openapi().components.as_ref().map(|components| &components.schemas);
        let clashes = |(index, (name, schema)): &(usize, &NamedSchema)| {
            let earlier = schemas[..*index].iter().filter(|(other, _)| other == name).map(|(_, schema)| schema);
            existing_schemas
                .and_then(|schemas| schemas.get(name))
                .into_iter()
                .chain(earlier)
                .any(|other| other != schema)
        };
        schemas.iter().enumerate().find(clashes).map(|(_, (name, _))| name.clone())
    }

    pub(crate) fn into_inner(self) -> OpenApiRouter<S> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use toolrack_host::principal::{Kind, Role};

    use super::*;

    fn status(right: Right, principal: Option<Principal>) -> u16 {
        let mut extensions = Extensions::new();
        if let Some(principal) = principal {
            extensions.insert(principal);
        }
        check_request(right, &extensions).map_or_else(|refused| refused.status().as_u16(), |()| 200)
    }

    #[test]
    fn a_request_without_a_principal_reaches_only_public_routes() {
        assert_eq!(status(Right::Open, None), 200);
        for right in Right::ALL {
            assert_eq!(status(right, None), 401, "{right:?}");
            assert_eq!(status(right, Some(Principal::LOCAL)), 200, "{right:?}");
        }
    }

    #[test]
    fn a_request_whose_role_has_not_the_right_is_refused() {
        let user = || Principal::new(Kind::Person, "acme", "https://login.example", "ann").unwrap();
        assert_eq!(status(Right::Use, Some(user())), 200);
        assert_eq!(status(Right::Operate, Some(user())), 403);
        assert_eq!(status(Right::See, Some(user().with_role(Role::Scraper))), 403);
        assert_eq!(status(Right::Install, Some(user().with_role(Role::Admin))), 403);
    }

    mod first {
        #[derive(utoipa::ToSchema)]
        #[expect(dead_code, reason = "only the schema is used")]
        pub(super) struct Row {
            number: u64,
        }

        #[utoipa::path(get, path = "/first", responses((status = 200, body = Row)))]
        pub(super) async fn get() {}
    }

    mod second {
        #[derive(utoipa::ToSchema)]
        #[expect(dead_code, reason = "only the schema is used")]
        pub(super) struct Row {
            name: String,
        }

        #[utoipa::path(get, path = "/second", responses((status = 200, body = Row)))]
        pub(super) async fn get() {}
    }

    #[test]
    fn a_second_schema_with_the_name_of_another_is_found() {
        let routes = Routes::<()>::new(utoipa::openapi::OpenApiBuilder::new().build());
        let first = || utoipa_axum::routes!(first::get);
        let routes = routes.with(Right::See, AnsweringWorld::Tenant, first());
        assert_eq!(routes.clashing_schema(&first().0), None, "the same schema may be used twice");
        let second: UtoipaMethodRouter<()> = utoipa_axum::routes!(second::get);
        assert_eq!(routes.clashing_schema(&second.0).as_deref(), Some("Row"));
        let at_once = [first().0, second.0].concat();
        let none = Routes::<()>::new(utoipa::openapi::OpenApiBuilder::new().build());
        assert_eq!(none.clashing_schema(&at_once).as_deref(), Some("Row"));
    }
}
