//! Defines the arguments of the verbs that talk with a model. A turn is a message of the user, and all that the model
//! does until it has answered. A wire is the API format of a model provider.

use std::num::{NonZeroU32, NonZeroU64};

use clap::{Args, ValueEnum};
use toolrack_host::Pattern;

/// The options that `ask` and `chat` share: the model, the limits of a turn, and the tools.
#[derive(Debug, Args)]
pub(crate) struct TalkArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) limits: LimitArgs,

    /// Give the model no tools, and start no server
    #[arg(long, conflicts_with_all = ["server", "tool", "code"], help_heading = "Tools")]
    pub(crate) no_tools: bool,

    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

/// Which model answers.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// The model: provider/name, such as anthropic/claude-sonnet-5-5 or ollama/qwen3:8b
    #[arg(short, long, value_name = "MODEL", env = "TOOLRACK_MODEL")]
    pub(crate) model: Option<String>,

    /// The address of the model, if not its provider's: any server with the OpenAI API
    #[arg(long, value_name = "URL", env = "TOOLRACK_BASE_URL")]
    pub(crate) base_url: Option<String>,

    /// The environment variable with the API key, if not the provider's usual one
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) key_env: Option<String>,

    /// The API that the model speaks, if not the provider's usual one
    #[arg(long, value_name = "WIRE")]
    pub(crate) wire: Option<WireName>,

    /// How many tokens one answer may have
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_tokens: Option<NonZeroU32>,

    /// The price of the model in US dollars, for a million tokens of input and of output, such as 3,15
    #[arg(long, value_name = "INPUT,OUTPUT", value_parser = parse_price)]
    pub(crate) price: Option<(f64, f64)>,
}

fn parse_price(typed_text: &str) -> Result<(f64, f64), String> {
    let parse_amount = |typed_text: &str| {
        let amount = typed_text.trim().trim_start_matches('$').parse::<f64>().ok();
        amount.filter(|amount| amount.is_finite() && *amount >= 0.0)
    };
    // Without a comma, the empty second amount is refused below.
    let (input, output) = typed_text.split_once(',').unwrap_or((typed_text, ""));
    parse_amount(input)
        .zip(parse_amount(output))
        .ok_or_else(|| "write two amounts, of input and of output, such as 3,15".into())
}

/// The limits of one turn.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Limits of a turn")]
pub(crate) struct LimitArgs {
    /// How many answers the model may give in a turn [default: 10]
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_rounds: Option<NonZeroU32>,

    /// How many tokens all answers of a turn may take, input included
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_total_tokens: Option<NonZeroU64>,

    /// How much all answers of a turn may cost, in US dollars, such as 0.25
    #[arg(long, value_name = "USD", value_parser = parse_dollars)]
    pub(crate) max_cost: Option<f64>,
}

fn parse_dollars(typed_text: &str) -> Result<f64, String> {
    let amount = typed_text.strip_prefix('$').unwrap_or(typed_text).parse::<f64>().ok();
    amount
        .filter(|amount| amount.is_finite() && *amount > 0.0)
        .ok_or_else(|| "write an amount above 0, such as 0.25".into())
}

/// The APIs of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WireName {
    // Anthropic Messages, OpenAI Chat Completions, OpenAI Responses, Google's generateContent. No doc comments: clap
    // would print them below every help.
    Anthropic,
    OpenaiChat,
    OpenaiResponses,
    Gemini,
}

/// Which tools run without a question, and which never run.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub(crate) struct RulesArgs {
    /// Run tools that match without asking; may be given more than once
    #[arg(long, value_name = "GLOB")]
    pub(crate) allow: Vec<Pattern>,

    /// Never run tools that match; may be given more than once
    #[arg(long, value_name = "GLOB")]
    pub(crate) deny: Vec<Pattern>,

    /// Without asking, run tools that say that they change nothing
    #[arg(long)]
    pub(crate) yes_read_only: bool,
}

/// The tools that the model gets, and the rules for its calls.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Tools")]
pub(crate) struct PolicyArgs {
    /// Only the tools of this server; may be given more than once. `ask` also takes the URL of a server that is not configured
    #[arg(long, value_name = "SERVER")]
    pub(crate) server: Vec<String>,

    /// Only tools that match, such as fs/read_* ; may be given more than once
    #[arg(long, value_name = "GLOB")]
    pub(crate) tool: Vec<Pattern>,

    #[command(flatten)]
    pub(crate) rules: RulesArgs,

    /// Let the model write scripts that call tools, and see only what they print
    #[arg(long)]
    pub(crate) code: bool,
}
