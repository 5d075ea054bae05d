//! Runs `toolrack why`.

use clap::Args;
use toolrack_host::Why;

use crate::{
    context::Context,
    error::{Exit, Failure},
    render::{Layout, Tone, columns, paint},
    verbs::{
        look::test::render::steps,
        reach::{self, Target},
    },
};

/// `why`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  toolrack why github/create_issue")]
pub(crate) struct WhyArgs {
    /// The tool: server/tool
    #[arg(value_name = "TOOL")]
    pub(crate) selector: String,
}

pub(crate) async fn run(args: WhyArgs, context: &Context) -> Result<Exit, Failure> {
    let loaded = context.load().await?;
    let target = Target::parse(&args.selector, &loaded)?;
    let mut desired = loaded.desired;
    desired.retain(|name, _| target.may_be_on(name));
    let host = context.connect(desired).await?;
    let why = match &target {
        Target::Tool { server, tool } => host.why_of(server, tool, &args.selector),
        Target::ModelName(_) => host.why(&args.selector),
    };
    if context.screen.prints_json() {
        context.screen.document(&why).await?;
    } else {
        let page = page(&why, context.screen.layout());
        context.screen.page(page).await?;
    }
    // If the tool is missing because its server cannot be used, the command ends with the same exit code as a call.
    let status = host.status().into_iter().find(|status| !why.present && Some(&status.name) == target.server());
    if let Some(failure) = status.and_then(|status| reach::server_failure(&host, &status)) {
        return Err(failure);
    }
    Ok(if why.known { Exit::Ok } else { Exit::Tool })
}

/// Returns the verdict, and a line for each step from the configuration to the name that models see. The first step
/// that failed is the reason.
fn page(why: &Why, layout: Layout) -> String {
    let rows = steps(&why.steps, layout);
    let is_tool = why.selector.contains('/');
    let verdict = match (why.present, is_tool) {
        (true, true) => "can be called",
        (false, true) => "cannot be called",
        (true, false) => "can be used",
        (false, false) => "cannot be used",
    };
    let mut lines = vec![format!("{} {verdict}", paint(Tone::Strong, &why.selector))];
    lines.extend(columns(&rows));
    lines.join("\n")
}
