//! How PowerShell asks, and what it is told.
//!
//! The answer is the library's; its script runs the line up to the cursor as PowerShell to take it apart, so that
//! `toolrack call $(anything)` would do anything when TAB is pressed. This one hands the words over as they stand.

use std::{
    ffi::OsString,
    io::{self, Write},
    path::Path,
};

use clap_complete::env::{self, EnvCompleter};

const SCRIPT: &str = r#"Register-ArgumentCompleter -Native -CommandName 'NAME' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Where-Object { $_.Extent.EndOffset -lt $cursorPosition } | ForEach-Object {
        if ($_ -is [System.Management.Automation.Language.StringConstantExpressionAst]) { $_.Value } else { $_.Extent.Text }
    })
    $before = @($env:VARIABLE, $env:INDEX)
    $env:VARIABLE = 'powershell'
    $env:INDEX = "$($words.Count)"
    try {
        $lines = @(& PROGRAM -- @words $wordToComplete 2>$null)
    } catch {
        $lines = @()
    } finally {
        $env:VARIABLE, $env:INDEX = $before
    }
    foreach ($line in $lines) {
        $word, $about = $line -split "`t", 2
        if (-not $about) { $about = $word }
        [System.Management.Automation.CompletionResult]::new($word, $word, 'ParameterValue', $about)
    }
}
"#;

#[derive(Clone, Copy, Debug)]
pub(super) struct Powershell;

impl EnvCompleter for Powershell {
    fn name(&self) -> &'static str {
        "powershell"
    }

    fn is(&self, name: &str) -> bool {
        name == self.name()
    }

    fn write_registration(
        &self,
        var: &str,
        name: &str,
        _bin: &str,
        completer: &str,
        buf: &mut dyn Write,
    ) -> io::Result<()> {
        let script = SCRIPT
            .replace("VARIABLE", var)
            .replace("INDEX", super::INDEX)
            .replace("NAME", name)
            .replace("PROGRAM", &format!("'{}'", completer.replace('\'', "''")));
        buf.write_all(script.as_bytes())
    }

    fn write_complete(
        &self,
        cmd: &mut clap::Command,
        args: Vec<OsString>,
        current_dir: Option<&Path>,
        buf: &mut dyn Write,
    ) -> io::Result<()> {
        env::Powershell.write_complete(cmd, args, current_dir, buf)
    }
}
