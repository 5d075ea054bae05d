//! Checks the container engines, and the images that entries name.

use toolrack_config::Loaded;
use toolrack_host::{
    EngineReport, ImageStatus, ServerName, ServerSpec, inspect_engine,
    spec::{Container, Engine, Pull, Transport},
    text,
};

use super::render::Check;
use crate::{
    context::Context,
    error::{Exit, with_causes},
};

/// If no entry uses a container, reports which engines are installed. Starts no engine.
pub(super) fn engines(loaded: &Loaded, context: &Context) -> Option<Check> {
    if loaded.desired.values().any(|spec| container_and_stdio(spec).is_some()) {
        return None;
    }
    let path = context.environment.get("PATH").map(ToOwned::to_owned);
    let is_installed = |program: &&&str| which::which_in(program, path.clone(), &context.folder).is_ok();
    let installed: Vec<_> = Engine::Auto.programs().iter().filter(is_installed).copied().collect();
    let message = match installed.as_slice() {
        [] => {
            let engines = Engine::Auto.programs().join(" and no ");
            format!("no {engines} is installed: an entry with `container` does not start")
        }
        [engine] => format!("{engine} is installed, and no entry has a `container`"),
        engines => format!("{} are installed, and no entry has a `container`", engines.join(" and ")),
    };
    Some(Check::good("container", "engine", message))
}

/// Checks whether the engine and the image of a server's container are there.
pub(super) async fn checks(name: &str, spec: &ServerSpec, context: &Context) -> Vec<Check> {
    let (Some((container, stdio)), Ok(server)) = (container_and_stdio(spec), ServerName::new(name)) else {
        return Vec::new();
    };
    // The checks of placeholders report a missing value already.
    let Ok(plan) = context.resolver().stdio(&server, stdio).await else { return Vec::new() };
    let inspection = match inspect_engine(&server, &plan).await {
        None => return Vec::new(),
        Some(Ok(inspection)) => inspection,
        Some(Err(error)) => {
            let engines = Engine::Auto.programs().join(" or ");
            let hint = format!("install {engines}, or take `container` out of the entry in {}", spec.source);
            return vec![Check::bad("container", name, with_causes(&error), Exit::Unreachable).hint(hint)];
        }
    };
    let program = text::for_line(&inspection.program.display().to_string()).into_owned();
    let engine = match &inspection.engine {
        Ok(facts) => {
            let privileges = if facts.rootless { "rootless" } else { "as root" };
            Check::good("container", name, format!("{program} {} answers, {privileges}", facts.version))
        }
        Err(why) => {
            let message = format!("{program} is installed and does not answer: {why}");
            let hint = "start it (`systemctl start docker`, `podman machine start`)";
            return vec![Check::bad("container", name, message, Exit::Unreachable).hint(hint)];
        }
    };
    // In the plan, the placeholders of the entry have their values.
    let image = plan.container.as_ref().map_or(container, |plan| &plan.container);
    vec![engine, image_check(name, image, &inspection)]
}

fn image_check(name: &str, container: &Container, inspection: &EngineReport) -> Check {
    let image = text::for_line(&container.image);
    let digests = match &inspection.image {
        ImageStatus::Present { digests } => Some(digests.as_slice()),
        ImageStatus::Missing | ImageStatus::NotAsked => None,
        ImageStatus::Unknown { why } => {
            let message = format!("whether the image {image} is here is not known: {why}");
            return Check::doubtful("container", name, message);
        }
    };
    let availability = match (digests, container.pull) {
        (Some(_), _) => "is here",
        (None, Pull::Missing) => "is not here, and is fetched at the first start, within `startup_timeout`",
        (None, Pull::Never) => {
            let message = format!("the image {image} is not here, and `container.pull` is `never`");
            let program = inspection.program.file_name().unwrap_or_default().to_string_lossy();
            let hint = format!("{program} pull {}", shell_words::quote(&image));
            return Check::bad("container", name, message, Exit::Unreachable).hint(hint);
        }
    };
    if container.is_pinned() {
        return Check::good("container", name, format!("the image {image} {availability}"));
    }
    let message =
        format!("the image {image} {availability}; it has no digest, so the same name may mean another image tomorrow");
    let hint = match digests.and_then(<[String]>::first) {
        Some(pinned) => format!("write \"image\": \"{pinned}\""),
        None => format!("write \"image\": \"{image}@sha256:…\""),
    };
    Check::doubtful("container", name, message).hint(hint)
}

fn container_and_stdio(spec: &ServerSpec) -> Option<(&Container, &toolrack_host::spec::Stdio)> {
    match &spec.transport {
        Transport::Stdio(stdio) => Some((stdio.container.as_deref()?, stdio)),
        _ => None,
    }
}
