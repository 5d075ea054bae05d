//! Lists the programs whose configuration can be imported.

use std::fmt;

use serde::Serialize;

/// A program whose configuration can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(into = "&'static str")]
pub enum Client {
    /// Anthropic's Claude Code (`~/.claude.json`).
    ClaudeCode,
    /// Anthropic's Claude Desktop (`claude_desktop_config.json`).
    ClaudeDesktop,
    /// Cursor (`~/.cursor/mcp.json`).
    Cursor,
    /// Visual Studio Code, its Insiders edition and VSCodium (`mcp.json`, `settings.json`).
    VsCode,
    /// Windsurf (`~/.codeium/windsurf/mcp_config.json`).
    Windsurf,
    /// OpenAI's Codex (`~/.codex/config.toml`).
    Codex,
    /// Google's Gemini CLI (`~/.gemini/settings.json`).
    Gemini,
    /// opencode (`~/.config/opencode/opencode.json`).
    OpenCode,
    /// Zed (`~/.config/zed/settings.json`).
    Zed,
    /// Qbit (`~/.qbit/mcp.json`).
    Qbit,
    /// Synapse (`~/.config/synapse/mcp_servers.json`).
    Synapse,
}

impl Client {
    /// All variants.
    pub const ALL: &[Self] = &[
        Self::ClaudeCode,
        Self::ClaudeDesktop,
        Self::Cursor,
        Self::VsCode,
        Self::Windsurf,
        Self::Codex,
        Self::Gemini,
        Self::OpenCode,
        Self::Zed,
        Self::Qbit,
        Self::Synapse,
    ];

    /// Returns the name of the program on a command line.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Windsurf => "windsurf",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::OpenCode => "opencode",
            Self::Zed => "zed",
            Self::Qbit => "qbit",
            Self::Synapse => "synapse",
        }
    }

    /// Returns the name of the program as its makers write it.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Cursor => "Cursor",
            Self::VsCode => "VS Code",
            Self::Windsurf => "Windsurf",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::OpenCode => "opencode",
            Self::Zed => "Zed",
            Self::Qbit => "Qbit",
            Self::Synapse => "Synapse",
        }
    }

    /// Returns the program with this [`id`](Self::id).
    #[must_use]
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|client| client.id() == id)
    }
}

impl From<Client> for &'static str {
    fn from(client: Client) -> Self {
        client.id()
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_leads_back_to_its_program() {
        for &client in Client::ALL {
            assert_eq!(Client::from_id(client.id()), Some(client));
        }
        assert_eq!(Client::from_id("Claude Code"), None);
    }
}
