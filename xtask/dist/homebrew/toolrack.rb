# Made by `cargo xtask dist`, for a tap of Homebrew. Untested: no machine with macOS has run it.
class Toolrack < Formula
  desc "Give any AI agent the tools of any set of MCP servers"
  homepage "@REPOSITORY@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

@ARCHIVES@
  def install
    bin.install "bin/toolrack", "bin/toolrack-supervisor"
    man1.install Dir["share/man/man1/*.1"]
    bash_completion.install "share/bash-completion/completions/toolrack"
    zsh_completion.install "share/zsh/site-functions/_toolrack"
    fish_completion.install "share/fish/vendor_completions.d/toolrack.fish"
  end

  service do
    run [opt_bin/"toolrack", "serve", "--detached", "--no-open"]
    keep_alive crashed: true
  end

  test do
    (testpath/"first-result.txt").write ""
    assert_match "first-result.txt", shell_output("#{bin}/toolrack call builtin/list_directory path=.")
  end
end
